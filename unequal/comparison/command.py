"""`unequal compare`: run a comparison of variants in blocks, or continue it."""

from contextlib import nullcontext
from pathlib import Path

import click

from unequal.errors import say


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--cores", default=2, show_default=True, help="Stages that run side by side (Snakemake).")
@click.option("--engine", type=click.Choice(["snakemake", "dvc"]), default="snakemake", show_default=True)
@click.option("--pilot", is_flag=True, help="Run the pilot alone, and print its judgement.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and leave the folder as it was.")
def compare(folder: Path, cores: int, engine: str, pilot: bool, dry_run: bool) -> None:
    """Run the comparison whose params.yaml lies in FOLDER, or continue it.

    Stages that are done are not run again: the same command continues after a kill, an edit of params.yaml or of the
    code. The page is FOLDER/results/report.html.
    """
    from unequal.comparison.run import PILOT, PILOT_TARGETS, as_it_was, pilot_lines, prepare, run_engine
    from unequal.runtime.files import read_json

    folder = folder.resolve()
    with as_it_was(folder) if dry_run else nullcontext():
        prepare(folder)
        run_engine(folder, engine, cores, PILOT_TARGETS if pilot else (), dry_run)
    if dry_run:
        say("Nothing was trained, and nothing was left in the folder; next: the same command without --dry-run.")
        return
    say(*(pilot_lines(read_json(folder / PILOT)) if pilot else [folder / "results/report.html"]))
