"""Fingerprints of the programs of a graph, each a small file on which its stages depend.

`python -m unequal.pipeline.fingerprint`, the stage `code` of every dvc.yaml, writes such a file for each program that
the dvc.yaml names, by `unequal.code`. Data outside the project have files of their own (`unequal.pipeline.sources`),
written by the same stage.
"""

from pathlib import Path
from typing import Any

import click

from unequal.code import HARNESS, ROOT, Fingerprint, Tree, is_harness
from unequal.errors import UserError, say
from unequal.pipeline.folders import update_graph
from unequal.pipeline.sources import write_sources
from unequal.runtime.files import read_json, sync_json
from unequal.settings.strict import read_yaml

#: Where the files lie, below the folder of the dvc.yaml.
CODE = Path("artifacts/code")


def programs(graph: Path) -> dict[str, Path]:
    """Find the programs of a dvc.yaml, by file name: module `stages.prune` as `prune`.

    Raises:
        UserError: a command starts none, or two programs have one name.
    """
    paths: dict[str, Path] = {}
    for stage, content in read_yaml(graph)["stages"].items():
        words = content.get("do", content)["cmd"].split()
        if "-m" not in words:
            raise UserError(f"{graph}: {stage}: the command starts no program by `python -m`")
        module = words[words.index("-m") + 1]
        if is_harness(module):
            continue
        path = Path(*module.split(".")).with_suffix(".py")
        if paths.setdefault(path.stem, path) != path:
            raise UserError(f"{graph}: {stage}: there are two programs named {path.stem}")
    return paths


def write_fingerprints(graph: Path, root: Path = ROOT) -> list[str]:
    """Bring `artifacts/code` next to a dvc.yaml up to date; return a line for each file whose program has changed.

    Files of unchanged programs stay untouched, since Snakemake goes by time; those of vanished programs are deleted.

    Raises:
        UserError: a command starts none of the project's programs.
    """
    paths = programs(graph)
    for program in paths.values():
        if not (root / program).is_file():
            raise UserError(f"{graph}: there is no program {program}")
    tree = Tree(root)
    codes = {name: tree.fingerprint(root / program) for name, program in paths.items()}
    changed = sync_json(graph.parent / CODE, codes)
    return [
        f"{file}: {', '.join(differences(old, codes[file.stem])) if what == 'changed' and old else what}"
        for file, (what, old) in changed.items()
    ]


def differences(old: Any, new: Any) -> list[str]:
    """Name the modules, texts and libraries that differ between two fingerprints."""
    entries = [{(kind, *item) for kind, names in code.items() for item in names.items()} for code in (old, new)]
    return sorted({name for _, name, _ in entries[0] ^ entries[1]})


def refuse_other_code(name: str, code: Fingerprint) -> None:
    """Raise UserError where a program's file holds the fingerprint of other code."""
    file = CODE / f"{name}.json"
    if file.exists() and (recorded := read_json(file)) != code:
        raise UserError(
            f"{file}: describes other code ({', '.join(differences(recorded, code))}): edited since the engine began, "
            f"or by hand; start the engine again, or `python -m {HARNESS[0]}.fingerprint`"
        )


@click.command(help=__doc__)
def main() -> None:
    """Bring the files of the dvc.yaml in the working directory up to date."""
    try:
        if update_graph():
            raise UserError("dvc.yaml: brought up to date with params.yaml and the package; run `dvc repro` again")
        for change in (*write_fingerprints(Path("dvc.yaml")), *write_sources(Path("dvc.yaml"))):
            say(change)
    except UserError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
