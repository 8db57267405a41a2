"""The tables of the predictions study, for people and as rows of CSV files."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from studies.predictions.findings import (
    FIRST,
    LAST,
    SYMBOLS,
    WHOLE,
    HeadFindings,
    SeedScores,
    ThreeHeads,
    mean_ratio,
)
from unequal.diffusion.predictions import HEADS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.reporting.page import Table
from unequal.reporting.tables import label, mean_and_sd, sd

SCORES_NOTE = (
    "± is the standard deviation over training seeds. Three heads are trained once and sampled in several ways: by the "
    "head with the least held-out error at a timestep (profile), by the blend of least variance, by inverse errors "
    "alone (blend diagonal), or by one head throughout."
)
CROSSOVER_NOTE = (
    "From this timestep on (0: data, T − 1: noise) the second prediction errs less, below it the first: the one switch "
    "that leaves the least sum over timesteps of log error. 0: the second is better throughout; T: the first is. "
    "± is the standard deviation over training seeds."
)
HEADS_NOTE = (
    "Best at: images of which the head's error was the smallest of the three, compared as the training compares them "
    "(balanced: errors of x0); the first and the last part are a twentieth of the training. Error: held-out, geometric "
    "mean over timesteps."
)
TOGETHER_NOTE = (
    "Lead kept: timesteps that the same head leads in the first and in the last twentieth of the training. "
    "Least error of each image: what the smallest loss minimises, below the error of the best head at each timestep, "
    "the least that a choice by timestep alone can have. Correlation: mean over pairs of heads and timesteps. "
    "The last two: held-out errors, geometric means over timesteps; best: at each timestep."
)


class Way(NamedTuple):
    """A training and the head that speaks when it is sampled; `own` where the recipe says so."""

    name: str
    prediction: str
    select: str
    own: bool
    scores: SeedScores


def ways(found: HeadFindings) -> Iterator[Way]:
    """All that was scored."""
    for single in found.alone.values():
        yield Way(single.name, single.prediction, "its own", True, single.scores)
    for mixed in found.mixed.values():
        for select, scores in mixed.scores.items():
            yield Way(mixed.name, "mixed", select, select == mixed.mixing.select, scores)


def scores_table(found: HeadFindings) -> Table:
    """FID and KID of every training and selection."""
    rows = []
    for way in ways(found):
        select = f"{selection(way.select)}{' (its recipe’s)' if way.own and way.prediction == 'mixed' else ''}"
        above = above_epsilon(found, way)
        rows.append((label(way.name), select, mean_and_sd(way.scores.fid), above, mean_and_sd(way.scores.kid)))
    columns = ("training", "head that speaks", "FID", "FID above that of ε alone", "KID")
    return Table("Scores", columns, rows, SCORES_NOTE)


def selection(select: str) -> str:
    """A selection as people read it."""
    return SYMBOLS.get(select, label(select))


def above_epsilon(found: HeadFindings, way: Way) -> str:
    """By how much a way's FID exceeds that of ε alone, seed by seed."""
    if "epsilon" not in found.alone or way.prediction == "epsilon":
        return "–"
    return mean_and_sd(np.subtract(way.scores.fid, found.alone["epsilon"].scores.fid).tolist(), signed=True)


def crossover_table(found: HeadFindings) -> Table:
    """The crossover timesteps, seed by seed."""
    rows = []
    for one in found.crossovers():
        snr = f"{snr_at(found.schedule, float(np.mean(one.timesteps))):+.1f} dB".replace("-", "−")
        rows.append((one.name, one.source, ", ".join(map(str, one.timesteps)), mean_and_sd(one.timesteps), snr))
    return Table("Crossovers", ("switch", "of", "timestep, by seed", "mean", "SNR there"), rows, CROSSOVER_NOTE)


def snr_at(schedule: NoiseSchedule, timestep: float) -> float:
    """Signal-to-noise ratio in dB at a timestep; beyond the end, at the last one."""
    return float(schedule.snr_db[min(round(timestep), schedule.timesteps - 1)])


def heads_table(found: HeadFindings) -> Table:
    """How each head of each mixed training fared."""
    rows = [head_row(found, mixed, head) for mixed in found.mixed.values() for head in range(len(HEADS))]
    parts = ("best at, first part", "best at, last part", "best at, whole training")
    columns = ("head", "of", *parts, "learned from", "error over that of the same prediction alone")
    told = (what_became(found, mixed) for mixed in found.mixed.values() if mixed.by_smallest)
    return Table("Which head won, and what became of it", columns, rows, " ".join([HEADS_NOTE, *told]))


def head_row(found: HeadFindings, mixed: ThreeHeads, head: int) -> tuple[str, ...]:
    """One head: at which share of the images it was best, from which it learned, and its error at the end."""
    shares = [percent([one.share(part)[head] for one in mixed.wins]) for part in (FIRST, LAST, WHOLE)]
    learned = shares[-1] if mixed.by_smallest else "100 %"
    over = f"{mean_and_sd(found.over_alone(mixed, head))} ×" if HEADS[head] in found.alone else "–"
    return SYMBOLS[HEADS[head]], label(mixed.name), *shares, learned, over


def percent(shares: Sequence[float]) -> str:
    """Shares of every seed as text."""
    return f"{mean_and_sd([100 * one for one in shares])} %"


def what_became(found: HeadFindings, mixed: ThreeHeads) -> str:
    """What the counts say of a training by the smallest loss, in sentences."""
    shares = mixed.all_wins.share()
    told = ", ".join(fate(found, mixed, head, shares[head]) for head in (int(np.argmax(shares)), mixed.loser))
    kept, gap = (float(np.mean(one)) for one in ([w.kept_lead for w in mixed.wins], hindsight(mixed)))
    return (
        f"{label(mixed.name).capitalize()}: {told}; {100 * kept:.0f} % of the timesteps are led at the end by the head "
        "that led them in the first part; the mean of the smallest errors, which is minimised, lies "
        f"{100 * gap:.2g} % below the error of the best head at each timestep.{unfairness(found, mixed)}"
    )


def fate(found: HeadFindings, mixed: ThreeHeads, head: int, share: float) -> str:
    """From how many images a head learned, and how it ended."""
    symbol = SYMBOLS[HEADS[head]]
    learned = f"{symbol} learns from {100 * share:.2g} % of the images"
    if HEADS[head] not in found.alone:
        return learned
    ratio = float(np.mean(found.over_alone(mixed, head)))
    return f"{learned} and ends with {ratio:.3g} × the error of {symbol} alone"


def unfairness(found: HeadFindings, mixed: ThreeHeads) -> str:
    """Whom the comparison of losses as they are favours: at equal errors e of x0 they are e, e/σ² and e·α²/σ²."""
    if mixed.mixing.train != "best_native":
        return ""
    turn = int((found.schedule.snr > 1).sum())
    return (
        " Losses as they are would not let equally good heads draw: x0’s is then the smallest where SNR is above 1 "
        f"(t < {turn}), ε’s from there on, v’s never."
    )


def hindsight(mixed: ThreeHeads) -> list[float]:
    """By what share the smallest error of each image lies below the best head's, one a seed."""
    return [one.hindsight for one in mixed.errors]


def together_table(found: HeadFindings) -> Table:
    """What the heads of each mixed training are together."""
    columns = (
        "training",
        "lead kept",
        "least error of each image, below the best head’s",
        "correlation of errors",
        "blend over the best head",
        "blend over the best prediction alone",
    )
    rows = [together_row(found, mixed) for mixed in found.mixed.values()]
    return Table("Heads together", columns, rows, TOGETHER_NOTE)


def together_row(found: HeadFindings, mixed: ThreeHeads) -> tuple[str, ...]:
    """What three heads of one training are together."""
    blends = mixed.combined("blend")
    over_head = [mean_ratio(blend, one.best) for blend, one in zip(blends, mixed.errors, strict=True)]
    return (
        label(mixed.name),
        percent([one.kept_lead for one in mixed.wins]),
        percent(hindsight(mixed)),
        mean_and_sd([one.correlation for one in mixed.errors]),
        f"{mean_and_sd(over_head)} ×",
        f"{mean_and_sd(list(map(mean_ratio, blends, found.least_alone)))} ×" if found.alone else "–",
    )


def score_rows(found: HeadFindings) -> list[dict[str, Any]]:
    """Scores as rows of a CSV; spreads are standard deviations over training seeds."""
    return [
        {
            "training": way.name,
            "selection": way.select if way.prediction == "mixed" else "",
            "fid_mean": float(np.mean(way.scores.fid)),
            "fid_sd": sd(way.scores.fid),
            "kid_mean": float(np.mean(way.scores.kid)),
            "kid_sd": sd(way.scores.kid),
            "seeds": len(way.scores.fid),
        }
        for way in ways(found)
    ]


def crossover_rows(found: HeadFindings) -> list[dict[str, Any]]:
    """Crossovers as rows of a CSV."""
    return [
        {
            "source": one.source,
            "below": one.below,
            "above": one.above,
            "timestep_mean": float(np.mean(one.timesteps)),
            "timestep_sd": sd(one.timesteps),
            "timesteps": " ".join(map(str, one.timesteps)),
        }
        for one in found.crossovers()
    ]


def win_rows(found: HeadFindings) -> list[dict[str, Any]]:
    """Wins of all seeds as rows of a CSV: a row for each part of a training and bin of timesteps."""
    rows = []
    for mixed in found.mixed.values():
        wins = mixed.all_wins
        for part, bin_, head_wins in ((p, b, wins.counts[p, b]) for p, b in np.ndindex(wins.counts.shape[:2])):
            inside = np.flatnonzero(wins.bins == bin_)
            place = {"training": mixed.name, "part": part + 1, "first": int(inside[0]), "last": int(inside[-1])}
            named = {f"wins_{head}": int(count) for head, count in zip(HEADS, head_wins, strict=True)}
            rows.append(place | {"images": int(head_wins.sum())} | named)
    return rows
