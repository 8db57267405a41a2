"""`unequal compare`: run an experiment, or continue it, and judge it."""

import shutil
from math import expm1
from pathlib import Path

import click

from unequal.errors import UserError, say


@click.command(short_help="Train variants by several seeds, and judge them.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--cores", default=2, show_default=True, help="Stages that run side by side (Snakemake).")
@click.option("--engine", type=click.Choice(["snakemake", "dvc"]), default="snakemake", show_default=True)
@click.option("--dry-run", is_flag=True, help="Show what would run, and leave the folder as it was.")
@click.option("--judge", "judge_alone", is_flag=True, help="Train nothing: judge results/trainings.csv again.")
def compare(folder: Path, cores: int, engine: str, dry_run: bool, judge_alone: bool) -> None:
    """Run the experiment whose params.yaml lies in FOLDER, or continue it.

    Stages that are done are not run again: the same command continues after a kill or an edit of params.yaml. The page
    is FOLDER/results/report.html.
    """
    from unequal.experiments.declaration import Declared
    from unequal.experiments.graph import RUN, lay
    from unequal.experiments.judging import judge
    from unequal.experiments.ledger import TRAININGS, judged, read_rows, write
    from unequal.experiments.page import publish
    from unequal.pipeline.params_files import check_params
    from unequal.pipeline.running import make_project, run_engine
    from unequal.runtime.place import ROOT
    from unequal.settings.strict import PARAMS

    file = folder / PARAMS
    if not file.exists():
        raise UserError(f"{folder}: no {PARAMS}; allowed: a folder with the declaration of an experiment")
    declared = Declared.read(file)
    if not judge_alone:
        check_params(file)
        fresh = not (folder / RUN).exists()
        run = lay(folder, declared)
        make_project(run)
        try:
            run_engine(run, engine, cores, dry_run=dry_run)
        finally:
            if dry_run and fresh:
                shutil.rmtree(run)
        if dry_run:
            say("Nothing was trained; next: the same command without --dry-run.")
            return
        say(*write(folder, run, declared, ROOT))
    rows, diverged = judged(read_rows(folder / TRAININGS))
    contrasts = [pair for pair in declared.experiment.contrasts if not set(pair) & set(diverged)]
    judgements = judge(rows, contrasts, declared.experiment.endpoints) if contrasts else []  # type: ignore[arg-type]
    for one in judgements:
        say(f"{one.endpoint}: {declared.named(one.variant, one.control)}: {expm1(one.difference):+.2%}, {one.verdict}")
    if diverged:
        say(f"diverged: {', '.join(diverged)}")
    say(publish(folder, declared, rows, judgements, diverged))
