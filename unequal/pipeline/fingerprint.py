"""The code of each stage instance as a small file on which the instance depends, and edits that change nothing.

`python -m unequal.pipeline.fingerprint`, the stage `code` of every dvc.yaml, brings these files up to date, and those
of sources outside the project (`unequal.pipeline.sources`). `unequal accept` enters them in dvc.lock. A stage that has
started with other code, since that was edited meanwhile, says so and writes its own: what is recorded is what ran.
"""

import ast
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unequal.errors import UserError, say
from unequal.pipeline.definitions import SETTINGS, Project
from unequal.pipeline.folders import update_graph
from unequal.pipeline.graph import forget_recorded, stages_of
from unequal.pipeline.sources import SOURCES, value_at, write_sources
from unequal.runtime.files import content_hash, json_bytes, json_or_none, sync_json, write_json
from unequal.runtime.place import ROOT, work_root
from unequal.settings.strict import PARAMS, read_yaml

if TYPE_CHECKING:
    from dvc.stage import Stage

#: Where the files lie, below the folder of the dvc.yaml.
CODE = Path("artifacts/code")
#: Entries of a file: names of tables' entries that settings hold, and definitions with their digests.
KEYS, DEFINITIONS = "keys", "definitions"


def strings_in(content: Any) -> Iterator[str]:
    """Yield all texts of settings, keys too."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield str(key)
            yield from strings_in(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from strings_in(value)
    elif isinstance(content, str):
        yield content


@cache
def default_strings(root: Path) -> frozenset[str]:
    """Return the texts that stand for settings which a params file leaves out."""
    files = sorted((root / "unequal" / SETTINGS).rglob("*.py"))
    classes = [
        one for file in files for one in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(one, ast.ClassDef)
    ]
    values = [field.value for one in classes for field in one.body if isinstance(field, ast.AnnAssign) and field.value]
    constants = [node.value for value in values for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return frozenset(value for value in constants if isinstance(value, str))


def keys_of(stages: Collection["Stage"], params: Mapping[str, Any]) -> dict[str, set[str]]:
    """Find the texts of the settings of each stage and of those whose outputs it reads, by its name."""
    keys, before = dict[str, set[str]](), dict[str, set[str]]()
    for stage in stages:
        paths = [Path(dep.def_path) for dep in stage.deps if not hasattr(dep, "params")]
        sections = [path.relative_to(SOURCES).with_suffix("").as_posix().replace("/", ".")
                    for path in paths if path.is_relative_to(SOURCES)]  # fmt: skip
        declared = [key for dep in stage.deps for key in getattr(dep, "params", ()) or ()] + sections
        keys[stage.name] = {*stage.cmd.split(), *strings_in([value_at(params, *key.split(".")) for key in declared])}
        before[stage.name] = {
            other.name
            for other in stages
            for out in other.outs
            if any(path.is_relative_to(out.def_path) or Path(out.def_path).is_relative_to(path) for path in paths)
        }
    while any(not keys[one] >= keys[name] for name, others in before.items() for one in [name] for name in others):
        for name, others in before.items():
            keys[name].update(*(keys[other] for other in others))
    return keys


def current_code(graph: Path, root: Path = ROOT) -> dict[str, Any]:
    """Return what the code files of a dvc.yaml in the working directory should hold, by name below CODE.

    Raises:
        UserError: a command starts no program by `python -m`.
    """
    project, stages = Project(root), [stage for stage in stages_of(graph) if code_of(stage) is not None]
    keys, programs, named = keys_of(stages, read_yaml(PARAMS)), dict[str, Path](), dict[str, set[str]]()
    for stage in stages:
        name = Path(str(code_of(stage))).relative_to(CODE).with_suffix("").as_posix()
        words = stage.cmd.split()
        if "-m" not in words:
            raise UserError(f"{graph}: {stage.name}: the command starts no program by `python -m`")
        programs[name] = root.joinpath(*words[words.index("-m") + 1].split(".")).with_suffix(".py")
        if not programs[name].is_file():
            raise UserError(f"{graph}: {stage.name}: there is no program {programs[name].relative_to(root)}")
        named.setdefault(name, set()).update(keys[stage.name], default_strings(root))
    return {name: content_of(project, program, named[name]) for name, program in programs.items()}


def code_of(stage: "Stage") -> str | None:
    """Return the code file on which a stage depends."""
    paths: list[str] = [dep.def_path for dep in stage.deps]
    return next((path for path in paths if Path(path).is_relative_to(CODE)), None)


def content_of(project: Project, program: Path, keys: Collection[str]) -> dict[str, Any]:
    """Fingerprint a program; of the keys, those stay that tables have."""
    reached = project.fingerprint(program, keys)
    entries = {name.partition("[")[2].removesuffix("]") for name in reached}
    return {KEYS: sorted({*keys} & entries), DEFINITIONS: reached}


def write_code(graph: Path, root: Path = ROOT) -> list[str]:
    """Bring `artifacts/code` up to date; return a line for each file that has changed. Others stay untouched."""
    contents = current_code(graph, root)
    changed = sync_json(CODE, contents)
    for old in (old for what, old in changed.values() if what == "changed"):
        write_json(recorded_code(hashlib.md5(json_bytes(old), usedforsecurity=False).hexdigest()), old)
    return [
        f"{file}: {', '.join(differences(old, contents[code_name(file)])) if what == 'changed' and old else what}"
        for file, (what, old) in changed.items()
    ]


def recorded_code(md5: str) -> Path:
    """Name the place of an earlier content of a code file, by its MD5: `accept` says what differs from it."""
    return work_root() / "code" / f"{md5}.json"


def edited_since(graph: Path, root: Path = ROOT) -> list[str]:
    """Name the definitions that differ from those in the code files."""
    contents = current_code(graph, root)
    return sorted(
        {name for file, new in contents.items() for name in differences(json_or_none(CODE / f"{file}.json"), new)}
    )


def code_name(file: Path) -> str:
    """Name a code file as `current_code` does."""
    return file.relative_to(CODE).with_suffix("").as_posix()


def differences(old: Any, new: Any) -> list[str]:
    """Name the definitions in which two code files differ."""
    before, now = (one.get(DEFINITIONS, {}) if isinstance(one, dict) else {} for one in (old, new))
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))


def code_file(program: str, options: Mapping[str, object]) -> Path:
    """Name the code file of a stage instance by its program and its options."""
    return CODE / program / f"{'-'.join(map(str, options.values()))}.json" if options else CODE / f"{program}.json"


def started_with(program: Path, options: Mapping[str, object], root: Path = ROOT, check: bool = True) -> Path:
    """Return the code file of a stage that starts, which holds the code that it starts with.

    Args:
        program: its file.
        options: those that are not the default.
        root: the project.
        check: false where another process has done this already.
    """
    file = code_file(program.stem, options)
    if not file.exists() and (shared := code_file(program.stem, {})).exists():
        file = shared
    if not check:
        return file
    old = json_or_none(file)
    keys = (
        old[KEYS] if isinstance(old, dict) and KEYS in old else [*strings_in(read_yaml(PARAMS)), *default_strings(root)]
    )
    new = content_of(Project(root), program, keys)
    if new != old:
        if old is not None:
            edited = ", ".join(differences(old, new))
            say(
                f"{program.stem}: code edited since the engine began ({edited}); this stage runs by the code of now",
                err=True,
            )
        write_json(file, new)
    return file


def accept(graph: Path, names: Collection[str] = (), root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Enter the code of now into dvc.lock for stages of which code alone has changed since their run.

    Args:
        graph: a dvc.yaml in the working directory.
        names: of stages, or of their instances; none: all.
        root: the project whose code runs.

    Returns:
        A line for each accepted stage with its edited definitions, and for each in which more has changed.

    Raises:
        UserError: no stage has this name.
    """
    from dvc.utils.serialize import dump_yaml

    write_sources(graph)
    stages = [stage for stage in stages_of(graph) if code_of(stage) is not None]
    for name in names:
        if name not in (known := {word for stage in stages for word in (stage.name, stage.name.partition("@")[0])}):
            raise UserError(f"{name}: no stage of {graph}; allowed: {', '.join(sorted(known))}")
    contents, accepted, refused = current_code(graph, root), list[str](), list[str]()
    lock = graph.with_name("dvc.lock")
    document = read_yaml(lock) if lock.exists() else {"stages": {}}
    for stage in stages:
        file, record = Path(str(code_of(stage))), document["stages"].get(stage.name)
        now = contents[code_name(file)]
        if record is None or (names and not {stage.name, stage.name.partition("@")[0]} & set(names)):
            continue
        entry = next((dep for dep in record["deps"] if dep["path"] == file.as_posix()), None)
        others = [item for item in (*stage.deps, *stage.outs) if item.def_path != file.as_posix() and item.status()]
        if others or stage.changed_stage() or entry is None:
            refused.append(f"{stage.name}: {', '.join(item.def_path for item in others) or 'its command'} changed too")
            continue
        before = json_or_none(recorded_code(entry["md5"])) or json_or_none(file)
        write_json(file, now)
        if entry["md5"] != (md5 := content_hash(file, "md5")):
            entry |= {"md5": md5, "size": file.stat().st_size}
            accepted.append(f"{stage.name}: {', '.join(differences(before, now)) or 'edited'}")
    if accepted:
        dump_yaml(str(new := lock.with_name("dvc.lock.new")), document)
        os.replace(new, lock)
    return accepted, refused


@click.command(help=__doc__)
def main() -> None:
    """Bring the files of the dvc.yaml in the working directory up to date."""
    try:
        if update_graph():
            raise UserError("dvc.yaml: brought up to date with params.yaml and the package; run `dvc repro` again")
        forget_recorded()
        for change in (*write_code(Path("dvc.yaml")), *write_sources(Path("dvc.yaml"))):
            say(change)
    except UserError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
