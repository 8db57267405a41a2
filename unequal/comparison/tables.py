"""Results of a comparison as tables of its page, as rows of files and in Markdown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.stats import sem

from unequal.comparison.confirmation import CONTROL, FIRST
from unequal.comparison.judgement import Family
from unequal.comparison.results import ComparisonResults
from unequal.comparison.settings import Contrast, images_for
from unequal.comparison.speed import curve_of
from unequal.report.formatting import either_way, label, mean_and_sd, percent, signed, with_prefix
from unequal.report.page import Table
from unequal.statistics.verdicts import BETTER, SAME, Verdict

#: Endpoints in words.
NAMES = {
    "loss_over_timesteps": "held-out loss of ε, over timesteps",
    "loss_over_log_snr": "held-out loss of ε, over log-SNR",
    "x0_loss_over_log_snr": "held-out loss of x0, over log-SNR",
    "fid": "FID",
}
NAMES |= {images_for(name): f"images for the same {text}" for name, text in NAMES.items()}
#: Scores besides endpoints in words.
SCORES = {"fid_half": "FID of half the samples", "kid": "KID", "precision": "precision", "recall": "recall"}
#: Costs in words.
COSTS = {
    "images": "images",
    "training_flops": "training FLOPs",
    "sampling_flops": "sampling FLOPs",
    "parameters": "parameters on disk",
    "parameters_per_step": "parameters a step",
}
#: Columns of `verdict_cells`, and of a comparison, which adds the interval from the two variants alone.
FINDING_COLUMNS = ("change", "95 % interval", "p (Holm)", "verdict")
COLUMNS = ("variant against control", *FINDING_COLUMNS[:2], "of the two alone", *FINDING_COLUMNS[2:])
#: Tests, by their variance.
TESTS = {
    "pooled": "by the variance of all variants that are pooled",
    "paired": "by that of two variants within blocks",
    "welch": "by that of two variants, blocks included, or a smaller one",
}
NOTE = (
    "Changes are of the endpoint's geometric mean over blocks; less is better. Intervals are for one comparison, p and "
    "verdict for the whole table, but for the last row: a variant that is its control once more, with other draws, "
    "where no difference should be found. The second interval is by the scatter of the two variants alone, whatever "
    "the plan says; verdicts do not use it."
)


def family_table(family: Family, results: ComparisonResults) -> Table:
    """Table of an endpoint's comparisons, with the repeated control (A/A) below them."""
    again = results.plan.repeated
    rows = [row(one, finding, family) for one, finding in family.verdicts.items()]
    checked = row(again, family.repeated, family)
    note = f"δ = {percent(family.delta)}. {detectable(family)} {NOTE}{scattering(family)}"
    return Table(NAMES[family.endpoint], COLUMNS, rows, note, [checked])


def row(comparison: Contrast, finding: Verdict, family: Family) -> tuple[str, ...]:
    """Row of a comparison."""
    change, interval, *rest = verdict_cells(finding, family.delta)
    alone = family.alone[comparison]
    return comparison_label(comparison.arm, comparison.control), change, interval, interval_text(*alone), *rest


def scattering(family: Family) -> str:
    """Name the pooled variants that scatter differently from the rest, and the effect on the others."""
    if not family.unlike:
        return ""
    arms = ", ".join(f"{label(arm)} ({percent(one)})" for arm, one in family.unlike.items())
    usual = percent(median(family.deviations.values()))
    return (
        f" Within blocks, trainings scatter by {usual} in the middle variant, and more than twice as much in: {arms}. "
        "That widens all pooled intervals, so that smaller differences of other variants cannot be detected."
    )


def detectable(family: Family) -> str:
    """State which difference this number of blocks detects, and whether that is enough."""
    return (
        "Four of five studies of so many blocks detect a difference of this size, by the scatter of these trainings "
        f"at most (80 %): {detectable_by_test(family.visible)}. Needed is {either_way(family.needed)}."
        f"{undetectable(family)}"
    )


def undetectable(family: Family) -> str:
    """State where the needed difference cannot be detected, and the effect on verdicts."""
    blind = dict.fromkeys(TESTS[one.test] for one, effect in family.visible.items() if effect > family.needed)
    every = {one.test for one in family.visible}
    whose = "" if len(blind) == len(every) else f" {' and '.join(blind)}"
    return f" That is too small to detect{whose}: only larger differences are judged there." if blind else ""


def detectable_by_test(visible: Mapping[Contrast, float]) -> str:
    """State the smallest detectable differences by test, since each pair of variants has a scatter of its own."""
    by_test: dict[str, list[float]] = {}
    for one, effect in visible.items():
        by_test.setdefault(one.test, []).append(effect)
    ends = {test: dict.fromkeys((min(effects), max(effects))) for test, effects in by_test.items()}
    return " and ".join(f"{' to '.join(map(either_way, pair))} {TESTS[test]}" for test, pair in ends.items())


def verdict_cells(finding: Verdict, delta: float) -> tuple[str, ...]:
    """A verdict with its figures, as text."""
    word = f"{finding.word} within {percent(delta)}" if finding.word == SAME else finding.word
    return (
        percent(finding.change, sign=True),
        interval_text(finding.low, finding.high),
        p_value(finding.p_difference),
        word,
    )


def interval_text(low: float, high: float) -> str:
    """An interval as text."""
    return f"{percent(low, sign=True)} … {percent(high, sign=True)}"


def p_value(p: float) -> str:
    """Format p to two digits, down to 0.001."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def comparison_label(arm: str, control: str) -> str:
    """Name of a comparison."""
    return f"{label(arm)} against {label(control)}"


def scores_table(results: ComparisonResults, real: Mapping[str, Any]) -> Table:
    """Table of endpoints and other scores of every variant and of the bases, and scores of real images."""
    endpoints, scores = list(results.plan.endpoints), [one for one in SCORES if one in results.any_training["scores"]]
    columns = ["variant", *(NAMES[one] for one in endpoints), *(SCORES[one] for one in scores)]

    def cells(trainings: Sequence[Any]) -> Iterator[str]:
        for kind, names in (("endpoints", endpoints), ("scores", scores)):
            yield from (mean_and_sd([one[kind][name] for one in trainings]) for name in names)

    rows, bases = rows_by_variant(results, cells)
    # Real images against real ones have no losses.
    ends = (f"{real[name]:.3g}".replace("-", "−") if name in real else "" for name in (*endpoints, *scores))
    note = "± is the standard deviation over blocks."
    return Table("Scores", columns, rows, note, [*bases, ("real images", *ends)])


def costs_table(results: ComparisonResults) -> Table:
    """Table of mean costs of every variant and of the bases."""

    def cells(trainings: Sequence[Any]) -> Iterator[str]:
        return (with_prefix(fmean(one["costs"][cost] for one in trainings)) for cost in COSTS)

    rows, bases = rows_by_variant(results, cells)
    return Table("Costs", ["variant", *COSTS.values()], rows, references=bases)


def rows_by_variant(
    results: ComparisonResults, cells: Callable[[Sequence[Any]], Iterator[str]]
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Rows of all variants, and of the bases if there are any, with the cells of each one's trainings."""
    arms = results.plan.arms.all
    rows: list[tuple[str, ...]] = [(label(arm), *cells(list(results.trainings[arm].values()))) for arm in arms]
    bases = list(results.bases.values())
    return rows, [("base", *cells(bases))] if bases else []


def speed_table(results: ComparisonResults, baseline: str, endpoint: str) -> Table:
    """Table of the images for an equal value of an endpoint, and of the final values."""
    name = NAMES[endpoint]
    columns = ["variant", "c, times as fast", f"{name} at the end"]
    rows = [(label(arm), *speed_cells(results, arm, endpoint)) for arm in results.plan.arms.all]
    biased = " FID along a training is of half of the samples, and biased upwards by more than that of all."
    note = (
        f"A variant of c is after n images where {label(baseline)} of the same block is after c·n: the second half of "
        f"the slower curve of the {name} is laid onto the other one, which has been there before. One that is worse at "
        "its end than the other at its first snapshot counts as if it had just reached that."
        f"{biased if endpoint == 'fid' else ''}"
    )
    return Table(f"Speed by {name}", columns, rows, note)


def speed_cells(results: ComparisonResults, arm: str, endpoint: str) -> Iterator[str]:
    """Yield the cells of a variant, right of its name."""
    trainings, images = results.trainings[arm], images_for(endpoint)
    # The baseline's factor is 1 by definition, but rounding may change its last bits.
    yield mean_and_sd([round(1 / one["endpoints"][images], 9) for one in trainings.values()])
    yield mean_and_sd([curve_of(one, endpoint).figures[-1] for one in trainings.values()])


def training_rows(results: ComparisonResults) -> list[dict[str, Any]]:
    """Rows, one per training, with its endpoints, scores and costs; figures that a training lacks are empty."""
    rows = [
        {"arm": arm, "block": block} | one["endpoints"] | one["scores"] | one["costs"]
        for arm, trainings in results.trainings.items()
        for block, one in trainings.items()
    ]
    columns = dict.fromkeys(name for row in rows for name in row)
    return [columns | row for row in rows]


def curve_rows(results: ComparisonResults) -> list[dict[str, Any]]:
    """Rows, one per variant and bin of timesteps: held-out loss of ε, geometric mean and spread over blocks.

    Each row also has the change within blocks from the loss of the control that is trained twice, with its error.
    """
    logs = {arm: np.log(results.curves(arm)) for arm in results.plan.arms.all}
    changes = {arm: one - logs[results.plan.repeated.control] for arm, one in logs.items()}
    first = results.bins.tolist()
    return [
        {"arm": arm, "first": start, "last": end - 1}
        | {"loss": float(np.exp(one[:, k].mean())), "log_sd": float(one[:, k].std(ddof=1))}
        | {"log_change": float(changes[arm][:, k].mean()), "log_change_stderr": float(sem(changes[arm][:, k]))}
        for arm, one in logs.items()
        for k, (start, end) in enumerate(zip(first, [*first[1:], results.timesteps], strict=True))
    ]


def rows_table(heading: str, rows: Sequence[Mapping[str, Any]], note: str) -> Table:
    """Table of a file's rows, numbers to four digits."""

    def text(value: Any) -> str:
        return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else label(str(value))

    return Table(
        heading, [label(name) for name in rows[0]], [[text(one) for one in row.values()] for row in rows], note
    )


def confirmation_table(
    verdicts: Mapping[str, Verdict], results: ComparisonResults, pairs: Sequence[Mapping[str, Any]]
) -> Table:
    """Table of a confirmation, with one row per endpoint."""
    arm, control = (label(pairs[0][place]["arm"]) for place in (FIRST, CONTROL))
    deltas = results.plan.judged
    rows = [(NAMES[name], *verdict_cells(verdict, deltas[name])) for name, verdict in verdicts.items()]
    note = (
        f"{arm}, which came first, was trained again with {control} in {len(pairs)} blocks that had no say in that; "
        "the error of a difference goes by the scatter of all trainings of the comparison, or of these pairs where "
        "that is larger. Each endpoint is judged by itself."
    )
    return Table(f"On fresh seeds: {arm} against {control}", ("endpoint", *FINDING_COLUMNS), rows, note)


def confirmation_rows(verdicts: Mapping[str, Verdict], again: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows, one per training and endpoint."""
    return [
        {"place": place, "arm": block[place]["arm"], "block": block[place]["block"], "endpoint": name}
        | {"value": block[place]["endpoints"][name], "word": verdicts[name].word}
        for block in again
        for place in (FIRST, CONTROL)
        for name in verdicts
    ]


def answer(family: Family) -> str:
    """State the verdicts of a comparison's first endpoint in one sentence."""
    better = {pair: one.change for pair, one in family.verdicts.items() if one.word == BETTER}
    if not better:
        return f"By {NAMES[family.endpoint]}, no variant is better than its control."
    first = min(better, key=better.__getitem__)
    more = f"; {len(better) - 1} more are better than theirs" if len(better) > 1 else ""
    return (
        f"By {NAMES[family.endpoint]}, {label(first.arm)} is better than its control {label(first.control)} "
        f"({signed(100 * better[first])} %){more}."
    )


def first_sentence(results: ComparisonResults, real: Mapping[str, Any]) -> str:
    """State data, network and budget, and the FID of real images."""
    one, control = results.any_training, results.plan.repeated.control
    images = fmean(each["costs"]["images"] for each in results.trainings[control].values())
    base = np.mean([each["costs"]["images"] for each in results.bases.values()]) if results.bases else 0
    budget = f"{with_prefix(images)} images" + (f" ({with_prefix(base)} of them the base's)" if base else "")
    return (
        f"On {named(results.plan.subject, one['conditions']['data'])}, with a network of "
        f"{with_prefix(one['costs']['parameters'])} parameters; {label(control)} is trained with {budget}"
        f"; {len(results.plan.seeds)} blocks. Real images, {real['sets']}, have a FID of {real['fid']:.3g}."
    )


def named(subject: str, data: str) -> str:
    """Describe the data as conditions do, with the images' usual name in place of the kind of their source."""
    return f"{subject}, {data.partition(', ')[2]}"
