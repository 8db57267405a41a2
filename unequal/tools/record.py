"""Record in DVC what Snakemake has made: `python -m unequal.tools.record [dvc.yaml]`.

What `dvc commit -f` does, which writes the whole lock file anew for each stage: minutes where there are two hundred.
Here it is written once.
"""

from pathlib import Path
from typing import Any

import click


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


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), default="dvc.yaml")
def main(file: Path) -> None:
    """Record one dvc.yaml."""
    try:
        count = record(file)
    except FileNotFoundError as missing:
        raise click.ClickException(f"{missing}: missing; run `snakemake` to its end first") from None
    click.echo(f"{file}: {count} stages recorded")


if __name__ == "__main__":
    main()
