"""Record in DVC what Snakemake has made: `python -m unequal.tools.record [dvc.yaml]`.

What `dvc commit -f` does, which writes the whole lock file anew for each stage: minutes where there are two hundred.
Here it is written once.

A graph of many hours is made in several sittings, and on several machines: `--finished` records the stages that
Snakemake has nothing to do for, and leaves what the lock file tells of others. Where their outputs are not at hand,
`dvc repro --allow-missing` goes on with the rest.

After a change of the code that shall change no result, `--verify` records the results that there are for the present
code: where a small run of it makes the same as one of the code that made them, and executes all that has changed.
Changed lines that no small run has executed are refused one by one, functions that none has entered by name; whoever
has looked at them, and knows that the recorded run did not execute them either, adds `--trust-unexecuted`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unequal.errors import UserError
from unequal.files import content_hash, files_below, read_json, write_json
from unequal.pipeline.engines import snakemake
from unequal.pipeline.fingerprint import CODE, write_fingerprints
from unequal.pipeline.project import checkout
from unequal.settings.strict import read_yaml
from unequal.tools.renames import FILES, with_new_keys, with_new_names
from unequal.tools.verify import refuse_changed, verify

if TYPE_CHECKING:
    from dvc.stage import Stage

#: Of a line of `snakemake --summary`; the first tells of an output, the last what is to be done about it.
SUMMARY_COLUMNS = 6


def record(file: Path) -> int:
    """Take the outputs of a dvc.yaml's stages into DVC's cache and write its dvc.lock; how many stages there are.

    Raises:
        FileNotFoundError: a stage's dependency or output is missing; nothing has been written then.
    """
    return write_lock(file, {}, stages_of(file))


def record_finished(file: Path) -> int:
    """The same for the stages that Snakemake has nothing to do for, and how many they are; other records stay.

    Raises:
        UserError: Snakemake cannot read the graph.
    """
    folder = file.resolve().parent
    root = checkout(folder)
    told = snakemake(root, folder.relative_to(root), {}, "--summary")
    if told.returncode:
        raise UserError(f"{file}: snakemake --summary failed:\n{told.stdout[-2000:]}")
    rows = [row.split("\t") for row in told.stdout.splitlines()]
    current = {row[0]: row[-1] == "no update" for row in rows if len(row) == SUMMARY_COLUMNS}
    return write_lock(file, recorded(file), [one for one in stages_of(file) if is_current(one, current)])


def is_current(stage: "Stage", current: Mapping[str, bool]) -> bool:
    """Whether all of a stage's outputs are up to date."""
    return bool(stage.outs) and all(current.get(out.def_path, False) for out in stage.outs)


def stages_of(file: Path) -> list["Stage"]:
    """The stages of a dvc.yaml, by name."""
    from dvc.repo import Repo

    return sorted(Repo().stage.load_all(str(file)), key=lambda stage: stage.name)


def recorded(file: Path) -> dict[str, Any]:
    """What the lock file beside a dvc.yaml tells of each stage."""
    lock = file.with_name("dvc.lock")
    return dict(read_yaml(lock)["stages"]) if lock.exists() else {}


def write_lock(file: Path, kept: Mapping[str, Any], stages: Sequence["Stage"]) -> int:
    """Take the outputs of stages into DVC's cache and write a lock file of them and of what is kept; how many they are.

    Raises:
        FileNotFoundError: a stage's dependency or output is missing; nothing has been written then.
    """
    from dvc.stage.serialize import to_lockfile
    from dvc.utils.serialize import dump_yaml

    locked = dict(kept)
    with stages[0].repo.lock if stages else nullcontext():
        for item in (item for stage in stages for item in (*stage.deps, *stage.outs)):
            if not item.exists:
                raise FileNotFoundError(str(item))
        for stage in stages:
            stage.save()
            stage.commit()
            locked |= to_lockfile(stage)
        dump_yaml(str(file.with_name("dvc.lock")), {"schema": "2.0", "stages": spelt_out(dict(sorted(locked.items())))})
    return len(stages)


def spelt_out(document: dict[str, Any]) -> dict[str, Any]:
    """The same, with nothing in two places: of what settings share by an anchor, a lock file would have aliases."""
    return dict(json.loads(json.dumps(document)))


def refuse_other_results(file: Path) -> None:
    """Raise UserError where nothing was recorded, or settings, inputs or outputs of a recorded stage differ from it.

    What is not at hand is what the lock file says: it is all that a clone has of models that were trained elsewhere.
    """
    told = recorded(file)
    for stage in (one for one in stages_of(file) if one.name in told and one.name != "code"):
        items = [one for one in (*stage.deps, *stage.outs) if one.exists and CODE.as_posix() not in one.def_path]
        if changed := [item for item in items if item.status()]:
            raise UserError(f"{stage.addressing}: {changed[0]} differs from {file.with_name('dvc.lock')}; run it first")


def with_present_code(file: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """A stage's record, with the files of its code as they are now."""
    found = {
        dep["path"]: file.parent / dep["path"] for dep in entry.get("deps", []) if Path(dep["path"]).parent == CODE
    }
    now = {name: {"md5": content_hash(path, "md5"), "size": path.stat().st_size} for name, path in found.items()}
    return entry | {"deps": [dep | now.get(dep["path"], {}) for dep in entry.get("deps", [])]}


@contextmanager
def renamed(file: Path) -> Iterator[None]:
    """Have stages and files under their new names, in the lock and beside it; under the old ones again on errors."""
    from dvc.utils.serialize import dump_yaml, load_yaml

    lock, moved = file.with_name("dvc.lock"), list[tuple[Path, Path]]()
    text = lock.read_text(encoding="utf-8")
    try:
        dump_yaml(str(lock), with_new_names(load_yaml(str(lock))))
        for old, new in ((file.parent / old, file.parent / new) for old, new in FILES.items()):
            if old.exists():
                new.parent.mkdir(parents=True, exist_ok=True)
                moved.append((old, old.rename(new)))
        yield
    except BaseException:
        lock.write_text(text, encoding="utf-8")
        for old, new in reversed(moved):
            new.rename(old)
        raise


def take_over_keys(file: Path) -> None:
    """Have what outputs tell under old keys under new ones."""
    from dvc.repo import Repo

    for out in (out for stage in Repo().stage.load_all(str(file)) for out in stage.outs if out.exists):
        for found in (one for one in files_below(file.parent / out.def_path) if one.suffix == ".json"):
            name, document = found.relative_to(file.parent).as_posix(), read_json(found)
            if (new := with_new_keys(name, read_json(found))) != document:
                write_json(found, new)


def record_verified(file: Path, trusting: bool) -> int:
    """Record the results that there are, for both engines, where the present code makes them; see `verify`.

    Snakemake goes by the files that are there: where some are not, or were never recorded, it is told nothing.
    """
    folder = file.resolve().parent
    root = checkout(folder)
    refuse_changed(folder / "dvc.lock")
    with renamed(file):
        refuse_other_results(file)
        for name in verify(file, trusting):
            click.echo(name)
        take_over_keys(file)
        write_fingerprints(file, root)
        stages, told = stages_of(file), recorded(file)
        whole = [one for one in stages if one.name in told and is_at_hand(one)]
        kept = {name: with_present_code(file, entry) for name, entry in told.items()}
        write_lock(file, kept, whole)
    if len(whole) < len(stages):
        return len(told)
    done = snakemake(root, folder.relative_to(root), {}, "--cores", "1", "--touch")
    if done.returncode:
        raise UserError(f"snakemake --touch failed:\n{done.stdout[-2000:]}")
    return len(told)


def is_at_hand(stage: "Stage") -> bool:
    """Whether all that a stage reads and makes is there."""
    return all(item.exists for item in (*stage.deps, *stage.outs))


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), default="dvc.yaml")
@click.option("--finished", is_flag=True, help="What Snakemake has nothing to do for; other records stay.")
@click.option("--verify", "verified", is_flag=True, help="What was made by other code, if the present code makes it.")
@click.option(
    "--trust-unexecuted", "trusting", is_flag=True, help="With --verify: name what was not executed, no more."
)
def main(file: Path, finished: bool, verified: bool, trusting: bool) -> None:
    """Record one dvc.yaml."""
    if finished and verified:
        raise click.UsageError("--finished and --verify are two things; allowed: one of them")
    if trusting and not verified:
        raise click.UsageError("--trust-unexecuted is of --verify; allowed: both, or neither")
    try:
        count = record_verified(file, trusting) if verified else record_finished(file) if finished else record(file)
    except FileNotFoundError as missing:
        raise click.ClickException(f"{missing}: missing; run `snakemake` to its end first") from None
    except UserError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{file}: {count} stages recorded")


if __name__ == "__main__":
    main()
