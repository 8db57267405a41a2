"""Record in DVC what Snakemake has made: `python -m unequal.tools.record [dvc.yaml]`.

Does what `dvc commit -f` does, which writes the whole lock file again for each stage: minutes for two hundred stages.

A graph of many hours is made in several sittings, or on several machines: `--finished` records the stages for which
Snakemake has nothing to do, and leaves the lock file's entries of others. Where their outputs are absent, `dvc repro
--allow-missing` continues with the rest.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unequal.errors import UserError
from unequal.pipeline.engines import snakemake
from unequal.pipeline.workdirs import checkout
from unequal.settings.strict import read_yaml

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


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), default="dvc.yaml")
@click.option("--finished", is_flag=True, help="Record what Snakemake has nothing to do for; other entries stay.")
def main(file: Path, finished: bool) -> None:
    """Record one dvc.yaml."""
    try:
        count = record_finished(file) if finished else record(file)
    except FileNotFoundError as missing:
        raise click.ClickException(f"{missing}: missing; run `snakemake` to its end first") from None
    except UserError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{file}: {count} stages recorded")


if __name__ == "__main__":
    main()
