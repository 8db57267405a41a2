"""ε, v and x0, alone and as three heads of one network: what was measured, and what follows from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from studies.grid.settings import trial_name
from unequal.diffusion.heads import head_weights
from unequal.diffusion.predictions import HEADS
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json, read_npz
from unequal.measures.head_errors import combined_error, correlations, crossover, kept_lead, least_error, win_shares
from unequal.reporting.tables import label
from unequal.settings.recipe import Mixing, Recipe

SYMBOLS = {"epsilon": "ε", "v_prediction": "v", "sample": "x0"}
#: (better nearer the data, better nearer the noise), if either is.
PAIRS = (("epsilon", "v_prediction"), ("v_prediction", "sample"), ("epsilon", "sample"))
#: Where crossovers of single predictions come from.
TRAINED_ALONE = "trained alone"
#: The first and the last part of a training in which wins are counted apart.
FIRST, LAST, WHOLE = slice(0, 1), slice(-1, None), slice(None)


class SeedScores(NamedTuple):
    """FID and KID, one a training seed."""

    fid: tuple[float, ...]
    kid: tuple[float, ...]

    @classmethod
    def of(cls, facts: Sequence[Mapping[str, Any]]) -> "SeedScores":
        """From the scores of the same variant of every seed."""
        return cls(tuple(one["fid_mean"] for one in facts), tuple(one["kid_mean"] for one in facts))


class TimestepErrors(NamedTuple):
    """Held-out x0-errors of three heads, on draws that all trials share.

    Attributes:
        products: mean products of the heads' errors, [T, 3, 3].
        least: mean of every draw's smallest error, [T].
        settled: the products by which the heads are combined, of other draws, [T, 3, 3].
    """

    products: np.ndarray
    least: np.ndarray
    settled: np.ndarray

    @property
    def by_head(self) -> np.ndarray:
        """Mean squared error of each head, [T, 3]."""
        return np.diagonal(self.products, axis1=1, axis2=2)

    @property
    def best(self) -> np.ndarray:
        """The same of the best head at each timestep, [T]."""
        return self.by_head.min(1)

    @property
    def hindsight(self) -> float:
        """By what share the smallest error of each draw lies below the best head's, as a geometric mean over t."""
        return 1 - mean_ratio(self.least, self.best)

    @property
    def correlation(self) -> float:
        """Mean correlation of two heads' errors, over pairs and timesteps."""
        first, second = np.triu_indices(len(HEADS), 1)
        return float(correlations(self.products)[:, first, second].mean())

    def weights(self, select: str) -> np.ndarray:
        """Weights of the heads in a combination, [T, 3]."""
        return head_weights(select, self.settled)

    def combined(self, select: str) -> np.ndarray:
        """Mean squared error of a combination, [T]."""
        return combined_error(self.products, self.weights(select))


class Wins(NamedTuple):
    """How many images each head was best at: counts [parts of the training, bins, 3]; the bin of each timestep, [T]."""

    counts: np.ndarray
    bins: np.ndarray

    def share(self, part: slice = WHOLE) -> np.ndarray:
        """Share of a part's images that each head was best at, [3]."""
        wins = self.counts[part].sum((0, 1))
        return np.asarray(wins / wins.sum())

    def by_timestep(self, part: slice) -> np.ndarray:
        """The same at each timestep, [T, 3]; NaN where no image came."""
        return win_shares(self.counts[part].sum(0), self.bins)

    @property
    def kept_lead(self) -> float:
        """Share of the timesteps that the same head leads in the first part and in the last."""
        return kept_lead(self.by_timestep(FIRST), self.by_timestep(LAST))


@dataclass(frozen=True)
class Alone:
    """A recipe that predicts ε, v or x0 alone; x0-errors [T] and scores of every training seed."""

    name: str
    prediction: str
    errors: tuple[np.ndarray, ...]
    scores: SeedScores


@dataclass(frozen=True)
class ThreeHeads:
    """A recipe of three heads; everything of every training seed, scores by selection."""

    name: str
    mixing: Mixing
    errors: tuple[TimestepErrors, ...]
    wins: tuple[Wins, ...]
    scores: dict[str, SeedScores]

    @property
    def by_smallest(self) -> bool:
        """Whether only the head with the smallest loss learns from an image."""
        return self.mixing.train != "balanced"

    @property
    def loser(self) -> int:
        """The head that won least."""
        return int(np.argmin(self.all_wins.share()))

    @property
    def all_wins(self) -> Wins:
        """Wins of all seeds together."""
        return Wins(np.sum([one.counts for one in self.wins], axis=0), self.wins[0].bins)

    def of_head(self, head: int) -> tuple[np.ndarray, ...]:
        """Errors [T] of a head, one a seed."""
        return tuple(one.by_head[:, head] for one in self.errors)

    def combined(self, select: str | None = None) -> list[np.ndarray]:
        """Errors [T] of a combination, its recipe's own if none is named, one a seed."""
        return [one.combined(select or self.mixing.select) for one in self.errors]

    def own_scores(self) -> SeedScores:
        """Scores of the combination that its recipe names."""
        return self.scores[self.mixing.select]


class Crossover(NamedTuple):
    """Where one prediction gives way to another, seed by seed: from these timesteps on `above` errs less."""

    source: str
    below: str
    above: str
    timesteps: tuple[int, ...]

    @property
    def name(self) -> str:
        """The switch as people read it."""
        return f"{SYMBOLS[self.below]} → {SYMBOLS[self.above]}"


@dataclass(frozen=True)
class HeadFindings:
    """All trials, every recipe with the same training seeds.

    Attributes:
        alone: prediction → the recipe of it.
        mixed: recipes of three heads, by name.
        conditions: what stands beside the scores of any trial.
    """

    seeds: tuple[int, ...]
    schedule: NoiseSchedule
    alone: dict[str, Alone]
    mixed: dict[str, ThreeHeads]
    conditions: dict[str, Any]

    @property
    def best_alone(self) -> Alone:
        """The single prediction with the lowest mean FID."""
        return min(self.alone.values(), key=lambda one: float(np.mean(one.scores.fid)))

    @property
    def least_alone(self) -> list[np.ndarray]:
        """Error of the best single prediction of each timestep, [T], one a seed."""
        return [np.min(errors, axis=0) for errors in zip(*(one.errors for one in self.alone.values()), strict=True)]

    def over_alone(self, trained: ThreeHeads, head: int) -> list[float]:
        """A head's error over that of its prediction alone, geometric mean over timesteps, one a seed."""
        return list(map(mean_ratio, trained.of_head(head), self.alone[HEADS[head]].errors))

    def by_source(self) -> dict[str, dict[str, tuple[np.ndarray, ...]]]:
        """Who is compared → prediction → errors [T] of every seed: those alone, and heads that all learn."""
        sources = {TRAINED_ALONE: {prediction: one.errors for prediction, one in self.alone.items()}}
        for trained in self.mixed.values():
            if not trained.by_smallest:
                heads = ((str(head), trained.of_head(i)) for i, head in enumerate(HEADS))
                sources[f"heads of {label(trained.name)}"] = dict(heads)
        return sources

    def crossovers(self) -> list[Crossover]:
        """Every switch between two predictions."""
        return [
            Crossover(source, below, above, tuple(map(crossover, errors[below], errors[above])))
            for source, errors in self.by_source().items()
            for below, above in PAIRS
            if {below, above} <= set(errors)
        ]


def mean_ratio(errors: np.ndarray, others: np.ndarray) -> float:
    """Geometric mean over timesteps of errors over others, [T] both."""
    return float(np.exp(np.mean(np.log(errors) - np.log(others))))


def read_findings(
    find: Callable[[str], Path],
    recipes: Mapping[str, Recipe],
    batch: str,
    seeds: tuple[int, ...],
    schedule: NoiseSchedule,
) -> HeadFindings:
    """Read what the trials have left.

    Args:
        find: turns a path within the project into one that exists.
        recipes: all that were trained.
        batch, seeds: of the trials.
        schedule: of all of them.

    Raises:
        UserError: something is missing or damaged.
    """
    heads, statistics = find("artifacts/heads"), find("artifacts/statistics")
    trials, selections = find("results/trials"), find("results/selections")
    alone: dict[str, Alone] = {}
    mixed: dict[str, ThreeHeads] = {}
    conditions: dict[str, Any] = {}
    for name, recipe in recipes.items():
        names = [trial_name(name, batch, seed) for seed in seeds]
        folder = trials if recipe.mixing is None else selections
        facts = [read_json(folder / f"{one.replace('/', '_')}.json") for one in names]
        tables, conditions = [heads / f"{one}.npz" for one in names], facts[0]
        if recipe.mixing is None:
            scores = SeedScores.of([one["points"][-1] for one in facts])
            alone[recipe.prediction] = Alone(name, recipe.prediction, tuple(map(read_alone, tables)), scores)
        else:
            wins = tuple(read_wins(statistics / f"{one}.npz") for one in names)
            errors = tuple(map(read_errors, tables))
            mixed[name] = ThreeHeads(name, recipe.mixing, errors, wins, by_selection(facts))
    return HeadFindings(seeds, schedule, alone, mixed, conditions)


def by_selection(facts: Sequence[Mapping[str, Any]]) -> dict[str, SeedScores]:
    """Selection → scores, from what `evaluate_selections` has written for every seed."""
    return {select: SeedScores.of([one["selections"][select] for one in facts]) for select in facts[0]["selections"]}


def read_alone(path: Path) -> np.ndarray:
    """x0-errors [T] of a single prediction, from what `profile_heads` has written."""
    return read_npz(path, ["products"])["products"].astype(np.float64).mean((1, 2, 3))


def read_errors(path: Path) -> TimestepErrors:
    """The same of three heads."""
    tables = read_npz(path, ["products", "settled"])
    products = tables["products"].astype(np.float64)
    return TimestepErrors(products.mean(1), least_error(products), tables["settled"])


def read_wins(path: Path) -> Wins:
    """What a training of three heads has counted."""
    tables = read_npz(path, ["wins", "bins"])
    return Wins(tables["wins"], tables["bins"])
