"""Whether a stage that is killed again and again comes to the same bytes as one that nobody kills.

`python -m benchmarks.kill` makes a tiny copy of the project and runs its stages without a kill. Then it kills them, by
SIGKILL and SIGTERM at random moments, every third time on their way out, and starts the same again until it is done:

- the long stages by themselves: out of a process that has the libraries in memory, which makes a kill cost a second,
  and by their commands;
- those that several processes share: the launcher, or one of them;
- all stages in the hands of both engines, which are killed with them, or alone, so that a stage outlives them;
- the tracking server under the long stages, which have to end well without it.

What they have made is compared byte by byte, but for the speed of a training in its log. Nothing is touched but a
temporary folder and the JSON file, to whose figures those of each run are added; docs/resuming.md tells of them.
"""

import json
import operator
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import click
import torch

from benchmarks.killing import BOTH, ENGINE, LONG_STAGES, SETTINGS, SHARER, STAGE, Kill, Killer, measured
from benchmarks.projects import ROOT, run, tiny_copy
from benchmarks.server import Server
from benchmarks.starting import Commands, Starter, Warm, warm
from benchmarks.timing import described
from benchmarks.traces import Stage, stages_up_to
from unequal.files import read_json, write_json

#: Where figures are kept, and the page that tells of those.
RECORDED, PAGE = Path("results/benchmarks/kill.json"), Path("docs/resuming.md")
WARM, COMMAND, PROCESSES, SERVER, DVC, SNAKEMAKE = "warm", "command", "processes", "server", "dvc", "snakemake"
#: What each kind of kill is told as.
KINDS = {
    WARM: "a stage's program, its libraries in memory",
    COMMAND: "a stage's command",
    PROCESSES: "a stage that two processes share",
    SERVER: "the tracking server under a stage",
    DVC: "a stage under dvc repro, DVC, or both, and the same command again",
    SNAKEMAKE: "a stage under snakemake --retries, Snakemake, or both, and the same command again",
}
#: So many kills of each kind, if nothing else is said.
DEFAULTS = {WARM: 150, COMMAND: 20, PROCESSES: 20, SERVER: 10, DVC: 20, SNAKEMAKE: 20}
#: Stages that several processes can share.
SHARED = ("train_base", "profile_floor", "profile_loss@base", "evaluate_fid@base")
#: The last stage of the tiny graph, and the files by which Snakemake is asked for it and for the check of params.yaml,
#: for which nothing waits there.
LAST, LAST_FILES = "evaluate_fid@experts_pruned", ("results/fid/experts_pruned.json", "artifacts/params_checked.json")
ENGINES = {
    DVC: ("dvc", "repro", LAST),
    SNAKEMAKE: ("snakemake", "--cores", "1", "--retries", "100", *LAST_FILES),
}


def measure(wanted: dict[str, int], seed: int) -> Iterator[dict[str, Any]]:
    """Kill until there are so many kills of each kind; what came of it so far, after each kind."""
    killers: dict[str, Killer] = {}
    commit = run(ROOT, "git", "describe", "--always", "--dirty").strip()
    for kind, killer in killed(wanted, Random(seed)):
        killers[kind] = killer
        found = summary(killers)
        conditions = {"seed": seed, "commit": commit} | described(torch.device("cpu"))
        yield found | {"runs": [{"kills": found["kills"]} | conditions]}


def added(one: Any, other: Any, name: str = "") -> Any:
    """The figures of two runs as those of one: counts add up, of states the least and the most are kept."""
    if isinstance(one, dict):
        return {
            key: added(one[key], other[key], key) if key in one and key in other else one.get(key, other.get(key))
            for key in [*one, *(key for key in other if key not in one)]
        }
    if isinstance(one, str):
        return other
    return {"least": min, "most": max}.get(name, operator.add)(one, other)


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
        kill_server(killer := Killer(project, seconds, expected, random), stages, Path(folder), wanted[SERVER])
        yield SERVER, killer
        yield PROCESSES, killed_sharing(Path(folder), random, wanted[PROCESSES])
        for engine in ENGINES:
            killer = Killer(project, seconds, expected, random)
            kill_under(killer, stages, engine, Path(folder), wanted[engine])
            yield engine, killer


def kill_alone(
    killer: Killer, stages: Sequence[Stage], starter: Starter, kind: str, wanted: int, hits: Sequence[str] = (STAGE,)
) -> None:
    """Run the long stages in turns until so many have been killed."""
    while len(killer.kills) < wanted:
        for stage in (stage for stage in stages if stage.name in {*LONG_STAGES, *SHARED}):
            killer.run(stage, starter, hits)
        click.echo(progress(kind, killer), err=True)


def killed_sharing(folder: Path, random: Random, wanted: int) -> Killer:
    """Run stages in two processes each, until so many have been killed; they round otherwise than one process does."""
    project = tiny_copy(folder / "sharing", SETTINGS | {"runtime.processes": 2})
    stages = stages_up_to(project, SHARED)
    starter = Commands(project)
    seconds, expected = measured(project, stages, starter) if wanted else ({}, {})
    killer = Killer(project, seconds, expected, random)
    kill_alone(killer, stages, starter, PROCESSES, wanted, hits=(STAGE, SHARER))
    return killer


def kill_server(killer: Killer, stages: Sequence[Stage], folder: Path, wanted: int) -> None:
    """Run the long stages in turns until the tracking server has been killed so often."""
    if not wanted:
        return
    with Server(folder / "server") as server:
        starter = Commands(killer.project, {"MLFLOW_TRACKING_URI": server.uri})
        while len(killer.kills) < wanted:
            for stage in (stage for stage in stages if stage.name in LONG_STAGES):
                killer.without(server, stage, starter)
            click.echo(progress(SERVER, killer), err=True)


def kill_under(killer: Killer, stages: Sequence[Stage], engine: str, folder: Path, wanted: int) -> None:
    """Have an engine run fresh copies of the project until so many kills have hit it or its stages."""
    while len(killer.kills) < wanted:
        killer.project = tiny_copy(folder / f"{engine}-{len(killer.kills)}", SETTINGS)
        killer.through(ENGINES[engine], stages, (STAGE, BOTH, ENGINE))
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
                "hit": Counter(kill.hit for kill in killer.kills),
                "on_the_way_out": sum(kill.late for kill in killer.kills),
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
    states = {"unit": units[name], "least": min(left), "most": max(left)}
    return counts | {"resumed_from": states}


def told(found: dict[str, Any]) -> str:
    """Markdown of all kills so far: a row a kind, and what they came to."""
    columns = ("killed", "kills", "of them on the way out", "stages brought to their end", "files that differ")
    rows = [
        (one["what"], one["kills"], one["on_the_way_out"], one["finished"], one["differing_files"])
        for one in found["kinds"].values()
        if one["kills"]
    ]
    table = [f"| {' | '.join(map(str, row))} |" for row in (columns, ("---",) * len(columns), *rows)]
    signals = found["signals"]
    summary = (
        f"{found['kills']} kills: {signals.get('SIGKILL', 0)} by SIGKILL and {signals.get('SIGTERM', 0)} by SIGTERM. "
        f"Of {found['compared_files']} files compared, {len(found['differing_files'])} differed."
    )
    return "\n".join([summary, "", *table])


def option(kind: str) -> click.Option:
    """The number of kills of a kind."""
    return click.Option([f"--{kind}"], default=DEFAULTS[kind], show_default=True, help=f"Kills: {KINDS[kind]}.")


def filled(text: str, name: str, content: str) -> str:
    """The text with this content between `<!-- name -->` and `<!-- /name -->`."""
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    assert start, name
    assert end, name
    return f"{before}{start}{content.strip()}\n{end}{after}"


@click.command(params=list(map(option, KINDS)))
@click.option("--seed", type=int, help="Of signals and moments; else the number of runs before.")
@click.option("--output", type=click.Path(path_type=Path), default=RECORDED, show_default=True)
def main(seed: int | None, output: Path, **wanted: int) -> None:
    """Kill stages at random moments, run them again, and compare; 0 kills of a kind leave it out."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # nothing is left behind then
    before = read_json(output) if output.exists() else {"runs": []}
    for result in measure(wanted, len(before["runs"]) if seed is None else seed):
        write_json(output, added(before, result))
    if output == RECORDED:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), "kills", told(read_json(output))), encoding="utf-8")
    click.echo(json.dumps(result, indent=2))
    sys.exit(bool(result["differing_files"]))


if __name__ == "__main__":
    main()
