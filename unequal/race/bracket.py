"""`race/bracket.yaml`: the trainings of a race so far, from which its graph resolves.

Between two calls of the engine, the next rung is added as decided by the judge of the last one. A training depends on
the judge's note on its candidate alone: it cannot start without the note, and other candidates do not make it stale.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from unequal.race.plan import CONFIRM, FURTHER, SHORT, WHOLE, Plan, Rung, following, opening
from unequal.race.standing import Candidate, Results
from unequal.settings.race import Race

#: Paths of a race's graph, and of the settings from which it resolves, below the folder of the params file.
GRAPH, BRACKET = Path("race/dvc.yaml"), Path("race/bracket.yaml")
#: Dependency of stages that follow no judge: the data's figures, which change with the data alone.
START = "results/metrics/data.json"
#: File that names the chosen sampling.
SAMPLING = "results/race/sampling.json"
#: File of the slots of the control's first training.
SLOTS = "results/race/trainings/slots.json"
HEAD = "# Trainings of the race so far; `unequal race run` adds the next rung as the judge of the last one says.\n"


def plan_of(race: Race) -> Plan:
    """Course of a race by its settings."""
    return Plan(
        control=race.control,
        rates=tuple(race.rates),
        delta=race.delta,
        short=None if race.short is None else (race.short.share, tuple(race.short.seeds)),
        keep=race.whole.keep,
        whole=tuple(race.whole.seeds),
        lower=race.whole.lower_rate,
        finalists=race.finals.keep if race.finals else 0,
        finals=tuple(race.finals.seeds) if race.finals else (),
        confirm=tuple(race.confirm.seeds),
        further=tuple(race.confirm.further),
    )


def label(candidate: Candidate) -> str:
    """Name of a candidate in paths: `min_snr_x0_5` at half of its rate."""
    return f"{candidate.arm}_x{candidate.rate:g}".replace(".", "_")


def training_name(candidate: Candidate, block: int) -> str:
    """Name of a training within its rung."""
    return f"{label(candidate)}_block_{block}"


def measured(rung: str, candidate: Candidate, block: int) -> Path:
    """File of a training's scores."""
    return Path(f"results/race/measured/{rung}/{training_name(candidate, block)}.json")


def standing_file(rung: str) -> Path:
    """File of the standing of a rung, written by its judge."""
    return Path(f"results/race/standing/{rung}.json")


def note(rung: str, candidate: Candidate) -> Path:
    """File with which the judge of a rung admits a candidate to the next rung."""
    return Path(f"artifacts/race/admitted/{rung}/{label(candidate)}.json")


def rungs(race: Race, done: Mapping[str, Results]) -> list[Rung]:
    """Rungs that are done, in order, and the next one, if any."""
    plan, found, before = plan_of(race), [opening(plan_of(race), list(race.arms))], dict[str, Results]()
    for name, results in done.items():
        before[name] = results
        if (rung := following(plan, before)) is not None:
            found.append(rung)
    return found


def bracket(race: Race, course: list[Rung]) -> dict[str, Any]:
    """Document from which the graph of a race with these rungs resolves."""
    before = [None, *(rung.name for rung in course)]
    fresh = [rung for rung in course if rung.name in (CONFIRM, FURTHER)]
    # Ways of sampling are compared once, with models of whole trainings that precede the fresh ones.
    choosing = bool(fresh) and len(race.samplings) > 1
    over_slots = race.over_slots
    trainings = {
        f"{rung.name}_{training_name(one, block)}": {
            "rung": rung.name,
            "arm": one.arm,
            "rate": f"{one.rate:g}",
            "block": block,
            "share": f"{rung.share:g}",
            "name": training_name(one, block),
            "after": START if last is None else str(note(last, one)),
            "sampling": SAMPLING if choosing and rung in fresh else START,
            "slots": SLOTS if one.arm in over_slots else START,
        }
        for last, rung in zip(before, course, strict=False)
        for one in rung.candidates
        for block in rung.blocks
    }
    judged = {
        rung.name: {"after": START if last is None else str(standing_file(last))}
        for last, rung in zip(before, course, strict=False)
    }
    last_whole = [rung.name for rung in course if rung.name not in (SHORT, CONFIRM, FURTHER)]
    of_experts = [name for name, arm in race.arms.items() if arm.experts is not None]
    with_experts = {name: one for name, one in trainings.items() if one["arm"] in of_experts}
    return {
        "trainings": trainings,
        "single": {name: one for name, one in trainings.items() if name not in with_experts},
        "experts": with_experts,
        "profiled": {"control": profiled(race, course[0])} if over_slots else {},
        "judged": judged,
        "sampled": {WHOLE: {"after": str(standing_file(last_whole[-1]))}} if choosing else {},
        "reported": {"page": {"after": str(standing_file(course[-1].name))}},
    }


def profiled(race: Race, first: Rung) -> dict[str, str]:
    """Control's training whose loss defines the slots: the first, at the learning rate closest to its own."""
    control = min((one for one in first.candidates if one.arm == race.control), key=lambda one: abs(math.log(one.rate)))
    return {"rung": first.name, "name": training_name(control, first.blocks[0])}


def bracket_text(document: Mapping[str, Any]) -> str:
    """Text of the document's file."""
    return HEAD + yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=200)
