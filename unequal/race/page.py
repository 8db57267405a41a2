"""Page of a race: one sentence, pictures, what is shown and what is a bet, and tables."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from unequal.data.prepared import PreparedData
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run
from unequal.race.bracket import measured
from unequal.race.findings import Standing, called, findings, recipe_document, with_chosen_sampling
from unequal.race.flags import script_flags
from unequal.race.pictures import drawings
from unequal.race.plan import SHORT
from unequal.race.standing import Candidate, means
from unequal.report.formatting import duration, percent, today, with_prefix
from unequal.report.page import Report, Table, publish
from unequal.report.results import data_condition
from unequal.report.statements import Section, Statement
from unequal.runtime.files import json_or_none, read_json, write_bytes
from unequal.settings.schedule import Schedule
from unequal.statistics.verdicts import UNDECIDED

RECIPE = "results/race/recipe.yaml"
#: Figures of a candidate's size: of all models, and the mean over sampling steps.
PARAMETERS = ("parameters", "parameters_per_step")


def standing_table(standing: Standing) -> Table:
    """Table with one row per candidate and rung, the best first."""
    rows = [
        (
            called(one),
            rung,
            str(len(results[one])),
            f"{math.exp(mean):.3g}" if math.isfinite(mean) else "collapsed",
            *parameters(rung, one, min(results[one])),
        )
        for rung, results in standing.done.items()
        for one, mean in means(results).items()
    ]
    return Table(
        "All candidates",
        ("candidate", "rung", "trainings", "FID, geometric mean", "parameters of all models", "a step"),
        rows,
        "Rungs are compared within themselves alone: short trainings see fewer images, and fresh seeds are scored "
        "against the other half of the held-out images where these are enough.",
    )


def parameters(rung: str, candidate: Candidate, block: int) -> list[str]:
    """Parameters of all models of a candidate, and their mean over sampling steps; dashes for a collapsed training."""
    found = read_json(measured(rung, candidate, block))
    return ["–" if (count := found.get(name)) is None else with_prefix(count) for name in PARAMETERS]


def cost_table(standing: Standing) -> Table:
    """Table of costs, with one row per rung."""
    images = standing.images()
    rows = [(rung, with_prefix(images[rung]), *map(duration, standing.seconds[rung])) for rung in images]
    sums = [sum(one[place] for one in standing.seconds.values()) for place in (0, 1)]
    rows.append(("all", with_prefix(sum(images.values())), *map(duration, sums)))
    return Table("What the race cost", ("rung", "images", "training", "scoring"), rows)


def say(key: str, subject: str, text: str) -> Statement:
    """Statement without figures, which are in outcome.json."""
    return Statement(key, text, subject=subject)


def between(low: float, high: float) -> str:
    """An interval of relative changes as text."""
    return f"{percent(low, True)} to {percent(high, True)}"


def shown_and_bet(found: Mapping[str, Any], standing: Standing) -> list[Statement]:
    """Statements on what is shown, and on the best bet."""
    claim = standing.claim
    lines = [say("shown", "Shown:", "nothing; no fresh seeds were trained.")]
    if claim is not None and claim.estimate is not None:
        span = between(math.expm1(claim.low), math.expm1(claim.high))
        change = percent(math.expm1(claim.estimate.difference), True)
        text = f"{claim.word}; FID changes by {change} on {claim.blocks} fresh seeds ({span})."
        lines = [say("shown", "Shown:", text)]
        if claim.word == UNDECIDED:
            visible = percent(math.expm1(claim.visible))
            lines.append(say("visible", "Visible here:", f"a difference of {visible}, in four of five races."))
    bet, effect = f"{called(standing.bet)}.", found["effect_in_the_race"]
    if effect is not None:
        looks, forecast = percent(effect["as_it_looks"], True), percent(effect["forecast"], True)
        bet += f" In the race FID of its winner looked {looks}; the forecast by all seeds is {forecast}."
    lines.append(say("bet", "Best bet:", bet))
    return lines


def worth_statements(found: Mapping[str, Any]) -> list[Statement]:
    """Statements on the worth of the recipe, and on the least final training for which the race pays."""
    lines = []
    if (multiple := found["worth_in_images_of_the_control"]) is not None:
        text = f"by its own slope the control needs {multiple:.3g} × the images for the same FID."
        lines.append(say("worth", "Worth:", text))
    if (images := found["pays_from_images"]) is not None:
        lines.append(say("pays", "Pays:", f"from a final training of {with_prefix(images)} images on."))
    return lines


def honesty(standing: Standing) -> list[Statement]:
    """Statements on the limits of a race's evidence."""
    lines = [
        say("errors", "", "Eliminations control no error: a variant that went out may be as good as one that stayed."),
        say("claim", "", "One claim is made: the winner against the control on fresh seeds, in at most two looks."),
    ]
    if SHORT in standing.done and standing.race.short is not None:
        share = percent(standing.race.short.share)
        lines.append(say("short", "", f"Short trainings see {share} of the images and decay to their own end."))
    return lines


def facts(standing: Standing, data: PreparedData) -> str:
    """Line of facts: data, time, device, date and commit."""
    training, scoring = (sum(one[place] for one in standing.seconds.values()) for place in (0, 1))
    took = f"{duration(training)} of training{on_device(standing)}, {duration(scoring)} of scoring"
    return f"{' · '.join([data_condition(data.facts), took, today(), *commit_words()])}."


def on_device(standing: Standing) -> str:
    """Device of the first scored training, after `on`; empty: none is scored."""
    trainings = (
        (rung, one, block) for rung, results in standing.done.items() for one in results for block in results[one]
    )
    scored = (json_or_none(measured(*one)) or {} for one in trainings)
    return next((f" on {one['conditions']['device']}" for one in scored if "conditions" in one), "")


def next_commands(standing: Standing, flags: str) -> list[str]:
    """Commands that a reader may run next, and comments on what no command does.

    Args:
        standing: the race so far.
        flags: the best bet as flags of other programs' scripts.
    """
    if not standing.has_whole:
        return ["unequal race run"]
    experts = standing.race.arms[standing.bet.arm].experts is not None
    return [
        *([] if standing.ended else ["unequal race run"]),
        f"# paste the sections of {RECIPE} into params.yaml" if experts else "unequal race adopt",
        *([f"# flags for scripts of diffusers or kohya: {RECIPE}"] if "--" in flags else []),
    ]


def write_page(run: Run, standing: Standing, schedule: Schedule, samples: Path, data: PreparedData) -> None:
    """Write the page, the findings and the recipe as outputs of a stage."""
    found, again = findings(standing), with_chosen_sampling(standing)
    sections = [Section("Shown, and the best bet", "", shown_and_bet(found, standing))]
    if lines := worth_statements(found):
        sections.append(Section("What it is worth", "", lines))
    if again is not None:
        changes = ", ".join(f"{place} {percent(change, True)}" for place, change in again.items())
        text = f"chosen without training; on fresh seeds FID changes by: {changes}."
        line = say("sampling", f"{standing.sampling}:", text)
        sections.append(Section("Sampling", "", [line]))
    sections.append(Section("What a race does not say", "", honesty(standing)))
    bet = standing.recipe
    experts = standing.race.arms[standing.bet.arm].experts is not None
    flags = "# experts: no script accepts them" if experts else script_flags(bet, schedule)
    report = Report(
        title="Race" if standing.ended else "Race, not yet ended",
        lead=found["sentence"],
        facts=facts(standing, data),
        tables=[standing_table(standing), cost_table(standing)],
        conditions={
            "δ": f"{standing.race.delta:g} of ln(FID)",
            "sampling": standing.sampling,
            "images of a whole training": f"{standing.race.recipe.images:,}",
        },
        drawings=[],
        rows={},
        sections=sections,
        overview=drawings(standing, samples, data),
        commands=next_commands(standing, flags),
    )
    publish(run, report, "results/race")
    run.metrics("results/race/outcome.json", found)
    header = f"# {found['sentence']}\n# Paste these sections into params.yaml, or run `unequal race adopt`.\n"
    body = yaml.safe_dump(recipe_document(standing), sort_keys=False, allow_unicode=True)
    comments = "".join(f"# {line.removeprefix('# ')}\n" for line in flags.splitlines())
    write_bytes(run.output(RECIPE), (header + body + comments).encode())
