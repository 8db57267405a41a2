"""Record in DVC what Snakemake has made: `python -m unequal.tools.record [dvc.yaml]`.

What `dvc commit -f` does, which writes the whole lock file anew for each stage: minutes where there are two hundred.
Here it is written once.

After a change of the code that shall change no result, `--verify` records the results that there are for the present
code: where a small run of it makes the same as one of the code that made them, and executes all that has changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from unequal.errors import UserError
from unequal.files import files_below, read_json, write_json
from unequal.pipeline.engines import snakemake
from unequal.pipeline.fingerprint import CODE, write_fingerprints
from unequal.pipeline.project import checkout
from unequal.tools.renames import FILES, with_new_keys, with_new_names
from unequal.tools.verify import commit_of, verify


def record(file: Path) -> int:
    """Take the outputs of a dvc.yaml's stages into DVC's cache and write its dvc.lock; how many stages there are.

    Raises:
        FileNotFoundError: a stage's dependency or output is missing; nothing has been written then.
    """
    from dvc.repo import Repo
    from dvc.stage.serialize import to_lockfile
    from dvc.utils.serialize import dump_yaml

    repo = Repo()
    locked: dict[str, Any] = {}
    with repo.lock:
        stages = sorted(repo.stage.load_all(str(file)), key=lambda stage: stage.name)
        for item in (item for stage in stages for item in (*stage.deps, *stage.outs)):
            if not item.exists:
                raise FileNotFoundError(str(item))
        for stage in stages:
            stage.save()
            stage.commit()
            locked |= to_lockfile(stage)
        dump_yaml(str(file.with_name("dvc.lock")), {"schema": "2.0", "stages": locked})
    return len(stages)


def refuse_other_results(file: Path) -> None:
    """Raise UserError where a stage was never recorded, or its settings, inputs or outputs differ from its record."""
    from dvc.repo import Repo

    for stage in Repo().stage.load_all(str(file)):
        if stage.name == "code":
            continue
        items = [one for one in (*stage.deps, *stage.outs) if CODE.as_posix() not in one.def_path]
        if changed := [item for item in items if item.status()]:
            raise UserError(f"{stage.addressing}: {changed[0]} differs from {file.with_name('dvc.lock')}; run it first")


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

    for out in (out for stage in Repo().stage.load_all(str(file)) for out in stage.outs):
        for found in (one for one in files_below(file.parent / out.def_path) if one.suffix == ".json"):
            name, document = found.relative_to(file.parent).as_posix(), read_json(found)
            if (new := with_new_keys(name, read_json(found))) != document:
                write_json(found, new)


def record_verified(file: Path) -> int:
    """Record the results that there are, for both engines, where the present code makes them; see `verify`."""
    folder = file.resolve().parent
    root, commit = checkout(folder), commit_of(folder / "dvc.lock")
    with renamed(file):
        refuse_other_results(file)
        verify(file, commit)
        take_over_keys(file)
        write_fingerprints(file, root)
        count = record(file)
    done = snakemake(root, folder.relative_to(root), {}, "--cores", "1", "--touch")
    if done.returncode:
        raise UserError(f"snakemake --touch failed:\n{done.stdout[-2000:]}")
    return count


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), default="dvc.yaml")
@click.option("--verify", "verified", is_flag=True, help="What was made by other code, if the present code makes it.")
def main(file: Path, verified: bool) -> None:
    """Record one dvc.yaml."""
    try:
        count = record_verified(file) if verified else record(file)
    except FileNotFoundError as missing:
        raise click.ClickException(f"{missing}: missing; run `snakemake` to its end first") from None
    except UserError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{file}: {count} stages recorded")


if __name__ == "__main__":
    main()
