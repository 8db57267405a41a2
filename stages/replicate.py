"""Run the pipeline again with each further seed of `replicas`, and collect the results of all."""

import os
from pathlib import Path

from unequal.errors import UserError
from unequal.pipeline.engines import snakemake_inside
from unequal.pipeline.replicas import prepare_replica
from unequal.pipeline.stage import Run, stage
from unequal.pipeline.workdirs import checkout
from unequal.report.figures import outcomes
from unequal.runtime.files import write_json
from unequal.settings.strict import StageSettings
from unequal.settings.values import Replicas, Seed


class Settings(StageSettings):
    seed: Seed
    replicas: Replicas
    variants: tuple[str, ...]
    profiled_models: tuple[str, ...]


def replicate(folder: Path) -> None:
    """Bring the graph in a replica's folder up to date. Raises UserError where it fails."""
    root = checkout(Path.cwd())
    place = Path.cwd().relative_to(root) / folder
    if snakemake_inside(root, place, "--cores", str(len(os.sched_getaffinity(0)))):
        raise UserError(f"{folder}: failed; its logs are in {folder}/logs, and the same command resumes it")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Make the replicas."""
    run.input("results/fid")
    run.input("results/metrics")
    target = run.output("results/replicas.json")  # locks the stage from here on
    further = [prepare_replica(number) for number in range(1, settings.replicas)]
    for folder in further:
        replicate(folder)
    found = outcomes([Path(), *further], settings.variants, settings.profiled_models)
    seeds = [settings.seed + number for number in range(settings.replicas)]
    write_json(target, {"seeds": seeds, "endpoints": found})
