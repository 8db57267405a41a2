"""Kill stages, engines and the tracking server at random moments, run them again, and compare the files byte by byte.

    python tests/kill_at_random.py                       # some 240 kills, about an hour
    python tests/kill_at_random.py --warm 20 --dvc 0     # 0 leaves a kind of kill out

A tiny copy of the project runs without a kill. Then its stages are killed by SIGKILL and SIGTERM, every third time
while they write their outputs, and started again until they end. After every other kill of a stage alone a bit of what
it has saved is flipped, as by a bad disk. All files must equal those of the run without kills,
but for the speed of a training in its log. A table of the kills is printed as Markdown; `--output` writes the figures.
"""

import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import click
from harness.killing import BOTH, ENGINE, LONG_STAGES, SETTINGS, SHARER, STAGE, Killer, measured
from harness.projects import tiny_copy
from harness.server import Server
from harness.starting import Commands, Starter, Warm, warm
from harness.traces import Stage, stages_up_to

from unequal.files import write_json

WARM, COMMAND, PROCESSES, SERVER, DVC, SNAKEMAKE = "warm", "command", "processes", "server", "dvc", "snakemake"
#: Description of each kind of kill in the table.
KINDS = {
    WARM: "a stage's program, its libraries in memory",
    COMMAND: "a stage's command",
    PROCESSES: "a stage that two processes share",
    SERVER: "the tracking server under a stage",
    DVC: "a stage under dvc repro, DVC, or both, and the same command again",
    SNAKEMAKE: "a stage under snakemake --retries, Snakemake, or both, and the same command again",
}
#: Number of kills of each kind by default.
DEFAULTS = {WARM: 150, COMMAND: 20, PROCESSES: 20, SERVER: 10, DVC: 20, SNAKEMAKE: 20}
#: Stages that several processes can share.
SHARED = ("train_base", "profile_floor", "profile_loss@base", "evaluate_fid@base")
#: The last stage of the tiny graph, and the files by which Snakemake reaches it and the check of params.yaml.
LAST, LAST_FILES = "evaluate_fid@experts_pruned", ("results/fid/experts_pruned.json", "artifacts/params_checked.json")
ENGINES = {DVC: ("dvc", "repro", LAST), SNAKEMAKE: ("snakemake", "--cores", "1", "--retries", "100", *LAST_FILES)}


def killed(counts: dict[str, int], random: Random) -> Iterator[tuple[str, Killer]]:
    """Yield each kind of kill with its killer, once it has killed so often."""
    with tempfile.TemporaryDirectory() as folder:
        project = tiny_copy(Path(folder) / "stages", SETTINGS)
        stages = stages_up_to(project, [*LONG_STAGES])
        with warm() as place:
            starter = Warm(project, place)
            seconds, expected = measured(project, stages, starter)
            killer = Killer(project, seconds, expected, random)
            kill_alone(killer, stages, starter, WARM, counts[WARM])
            yield WARM, killer
        seconds, _ = measured(project, stages, Commands(project))
        killer = Killer(project, seconds, expected, random)
        kill_alone(killer, stages, Commands(project), COMMAND, counts[COMMAND])
        yield COMMAND, killer
        kill_server(killer := Killer(project, seconds, expected, random), stages, Path(folder), counts[SERVER])
        yield SERVER, killer
        yield PROCESSES, killed_sharing(Path(folder), random, counts[PROCESSES])
        for engine in ENGINES:
            killer = Killer(project, seconds, expected, random)
            kill_under(killer, stages, engine, Path(folder), counts[engine])
            yield engine, killer


def kill_alone(
    killer: Killer, stages: Sequence[Stage], starter: Starter, kind: str, count: int, hits: Sequence[str] = (STAGE,)
) -> None:
    """Run the long stages in turns until so many have been killed."""
    while len(killer.kills) < count:
        for stage in (stage for stage in stages if stage.name in {*LONG_STAGES, *SHARED}):
            killer.run(stage, starter, hits)
        click.echo(progress(kind, killer), err=True)


def killed_sharing(folder: Path, random: Random, count: int) -> Killer:
    """Kill stages that run in two processes each; their sums are rounded differently from one process."""
    project = tiny_copy(folder / "sharing", SETTINGS | {"runtime.processes": 2})
    stages = stages_up_to(project, SHARED)
    starter = Commands(project)
    seconds, expected = measured(project, stages, starter) if count else ({}, {})
    killer = Killer(project, seconds, expected, random)
    kill_alone(killer, stages, starter, PROCESSES, count, hits=(STAGE, SHARER))
    return killer


def kill_server(killer: Killer, stages: Sequence[Stage], folder: Path, count: int) -> None:
    """Run the long stages in turns until the tracking server has been killed so often."""
    if not count:
        return
    with Server(folder / "server") as server:
        starter = Commands(killer.project, {"MLFLOW_TRACKING_URI": server.uri})
        while len(killer.kills) < count:
            for stage in (stage for stage in stages if stage.name in LONG_STAGES):
                killer.without(server, stage, starter)
            click.echo(progress(SERVER, killer), err=True)


def kill_under(killer: Killer, stages: Sequence[Stage], engine: str, folder: Path, count: int) -> None:
    """Have an engine run fresh copies of the project until so many kills have hit it or its stages."""
    while len(killer.kills) < count:
        killer.project = tiny_copy(folder / f"{engine}-{len(killer.kills)}", SETTINGS)
        killer.through(ENGINES[engine], stages, (STAGE, BOTH, ENGINE))
        click.echo(progress(engine, killer), err=True)


def progress(kind: str, killer: Killer) -> str:
    """Return a line on how far it is."""
    return f"{KINDS[kind]}: {len(killer.kills)} kills, {len(killer.differing)} files differ"


def summary(killers: dict[str, Killer]) -> dict[str, Any]:
    """Return the figures of all kills, by kind."""
    kills = [kill for killer in killers.values() for kill in killer.kills]
    return {
        "kills": len(kills),
        "signals": Counter(kill.signal for kill in kills),
        "differing_files": [name for killer in killers.values() for name in killer.differing],
        "compared_files": sum(killer.compared for killer in killers.values()),
        "kinds": {kind: counts_of(kind, killer) for kind, killer in killers.items()},
    }


def counts_of(kind: str, killer: Killer) -> dict[str, Any]:
    """Return what a row of the table shows."""
    return {
        "killed": KINDS[kind],
        "kills": len(killer.kills),
        "while it wrote outputs": sum(kill.late for kill in killer.kills),
        "then a bit flipped": sum(kill.spoiled is not None for kill in killer.kills),
        "finished stages": len(killer.finished),
        "files that differ": len(killer.differing),
    }


def table(figures: dict[str, Any]) -> str:
    """Return Markdown with a sentence on all kills and a row for each kind."""
    rows = [row for row in figures["kinds"].values() if row["kills"]]
    columns = list(next(iter(figures["kinds"].values())))
    lines = [f"| {' | '.join(map(str, row))} |" for row in (columns, ["---"] * 6, *(row.values() for row in rows))]
    by = " and ".join(f"{count} by {name}" for name, count in sorted(figures["signals"].items()))
    sentence = f"{figures['kills']} kills: {by}. "
    sentence += f"Of {figures['compared_files']} files compared, {len(figures['differing_files'])} differed."
    return "\n".join([sentence, "", *lines])


def option(kind: str) -> click.Option:
    """Return the option for the number of kills of a kind."""
    return click.Option([f"--{kind}"], default=DEFAULTS[kind], show_default=True, help=f"Kills: {KINDS[kind]}.")


@click.command(params=list(map(option, KINDS)), help=__doc__)
@click.option("--seed", default=0, show_default=True, help="Seed of signals and moments.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file of the figures.")
def main(seed: int, output: Path | None, **counts: int) -> None:
    """Kill, run again and compare; the status is 1 where a file differs."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that nothing is left behind
    killers: dict[str, Killer] = {}
    for kind, killer in killed(counts, Random(seed)):
        killers[kind] = killer
    figures = summary(killers)
    if output is not None:
        write_json(output, figures)
    click.echo(table(figures))
    sys.exit(bool(figures["differing_files"]))


if __name__ == "__main__":
    main()
