"""Whether a stage that is killed again and again comes to the same bytes as one that nobody kills.

`python -m benchmarks.kill` makes a tiny copy of the project and runs its stages without a kill. Then it kills them, by
SIGKILL and SIGTERM at random moments, and starts the same again until it is done: the long stages by themselves (out
of a process that has the libraries in memory, which makes a kill cost a second, and by their commands), and all of
them in the hands of both engines: `dvc repro` once more after each kill, `snakemake` carrying on by its retries. What
they have made is compared byte by byte, but for the speed of a training in its log. Nothing is touched but a
temporary folder and the JSON file.
"""

import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import click
import torch

from benchmarks.killing import LONG_STAGES, SETTINGS, Kill, Killer, Stage, measured, stages_up_to
from benchmarks.projects import tiny_copy
from benchmarks.starting import Commands, Starter, Warm, warm
from benchmarks.timing import described
from unequal.files import write_json

WARM, COMMAND, DVC, SNAKEMAKE = "warm", "command", "dvc", "snakemake"
#: What each kind of kill is told as.
KINDS = {
    WARM: "a stage's program, its libraries in memory",
    COMMAND: "a stage's command",
    DVC: "a stage under dvc repro, run again after each kill",
    SNAKEMAKE: "a stage under snakemake --retries",
}
#: The last stage of the tiny graph, and the files by which Snakemake is asked for it and for the check of params.yaml,
#: for which nothing waits there.
LAST, LAST_FILES = "evaluate_fid@experts_pruned", ("results/fid/experts_pruned.json", "artifacts/params_checked.json")
ENGINES = {
    DVC: ("dvc", "repro", LAST),
    SNAKEMAKE: ("snakemake", "--cores", "1", "--retries", "100", *LAST_FILES),
}
#: Share of the kills under DVC that end DVC as well, as a power cut does.
OUTAGES = {DVC: 0.3, SNAKEMAKE: 0.0}


def measure(wanted: dict[str, int], seed: int) -> Iterator[dict[str, Any]]:
    """Kill until there are so many kills of each kind; what came of it so far, after each kind."""
    killers: dict[str, Killer] = {}
    for kind, killer in killed(wanted, Random(seed)):
        killers[kind] = killer
        yield summary(killers) | {"seed": seed} | described(torch.device("cpu"))


def killed(wanted: dict[str, int], random: Random) -> Iterator[tuple[str, Killer]]:
    """Each kind of kill, with the account of it."""
    with tempfile.TemporaryDirectory() as folder:
        project = tiny_copy(Path(folder) / "stages", SETTINGS)
        stages = stages_up_to(project, [*LONG_STAGES])
        with warm() as place:
            starter = Warm(project, place)
            seconds, expected = measured(project, stages, starter)
            killer = Killer(project, seconds, expected, random)
            kill_alone(killer, stages, starter, WARM, wanted[WARM])
            yield WARM, killer
        seconds, _ = measured(project, stages, Commands(project))
        killer = Killer(project, seconds, expected, random)
        kill_alone(killer, stages, Commands(project), COMMAND, wanted[COMMAND])
        yield COMMAND, killer
        for engine in ENGINES:
            killer = Killer(project, seconds, expected, random)
            kill_under(killer, stages, engine, Path(folder), wanted[engine])
            yield engine, killer


def kill_alone(killer: Killer, stages: Sequence[Stage], starter: Starter, kind: str, wanted: int) -> None:
    """Run the long stages in turns until so many have been killed."""
    while len(killer.kills) < wanted:
        for stage in (stage for stage in stages if stage.name in LONG_STAGES):
            killer.run(stage, starter)
        click.echo(progress(kind, killer), err=True)


def kill_under(killer: Killer, stages: Sequence[Stage], engine: str, folder: Path, wanted: int) -> None:
    """Have an engine run fresh copies of the project until so many stages have been killed."""
    while len(killer.kills) < wanted:
        killer.project = tiny_copy(folder / f"{engine}-{len(killer.kills)}", SETTINGS)
        killer.through(ENGINES[engine], stages, OUTAGES[engine])
        click.echo(progress(engine, killer), err=True)


def progress(kind: str, killer: Killer) -> str:
    """A line on how far it is."""
    return f"{KINDS[kind]}: {len(killer.kills)} kills, {len(killer.differing)} files differ"


def summary(killers: dict[str, Killer]) -> dict[str, Any]:
    """Figures of all kills: by kind, and by stage."""
    kills = [kill for killer in killers.values() for kill in killer.kills]
    finished = Counter(program(name) for killer in killers.values() for name in killer.finished)
    return {
        "kills": len(kills),
        "signals": Counter(kill.signal for kill in kills),
        "differing_files": [name for killer in killers.values() for name in killer.differing],
        "compared_files": sum(killer.compared for killer in killers.values()),
        "kinds": {
            kind: {
                "what": KINDS[kind],
                "kills": len(killer.kills),
                "with_the_engine": sum(kill.outage for kill in killer.kills),
                "finished": len(killer.finished),
                "differing_files": len(killer.differing),
            }
            for kind, killer in killers.items()
        },
        "stages": {
            name: {"finished": finished[name], **of_stage([one for one in kills if program(one.stage) == name], name)}
            for name in sorted(finished)
        },
    }


def program(stage: str) -> str:
    """The program of a stage instance."""
    return stage.partition("@")[0]


def of_stage(kills: Sequence[Kill], name: str) -> dict[str, Any]:
    """The kills of a program, and the states that they left behind, from which the next attempt went on."""
    units = {program(stage): unit for stage, unit in LONG_STAGES.items()}
    left = [kill.saved for kill in kills if kill.saved]
    counts = {"kills": len(kills), "before_anything_was_saved": len(kills) - len(left)}
    if not left or name not in units:
        return counts | {"resumed_from": {}}
    states = {"unit": units[name], "least": min(left), "median": median(left), "most": max(left)}
    return counts | {"resumed_from": states}


@click.command()
@click.option("--warm", "warm_kills", default=150, show_default=True, help=f"Kills of {KINDS[WARM]}.")
@click.option("--command", "command_kills", default=20, show_default=True, help=f"Kills of {KINDS[COMMAND]}.")
@click.option("--dvc", "dvc_kills", default=15, show_default=True, help=f"Kills of {KINDS[DVC]}.")
@click.option("--snakemake", "snakemake_kills", default=15, show_default=True, help=f"Kills of {KINDS[SNAKEMAKE]}.")
@click.option("--seed", default=0, show_default=True, help="Of signals and moments.")
@click.option("--output", type=click.Path(path_type=Path), default="results/benchmarks/kill.json", show_default=True)
def main(warm_kills: int, command_kills: int, dvc_kills: int, snakemake_kills: int, seed: int, output: Path) -> None:
    """Kill stages at random moments, run them again, and compare; 0 kills of a kind leave it out."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # nothing is left behind then
    wanted = {WARM: warm_kills, COMMAND: command_kills, DVC: dvc_kills, SNAKEMAKE: snakemake_kills}
    for result in measure(wanted, seed):
        write_json(output, result)
    click.echo(json.dumps(result, indent=2))
    sys.exit(bool(result["differing_files"]))


if __name__ == "__main__":
    main()
