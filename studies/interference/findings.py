"""What training on did to the base's losses: read once, and summed up by recipe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from studies.interference.settings import Interference
from unequal.artifacts.partitions import read_slot_sets, read_slots
from unequal.artifacts.profiles import read_floor, read_profile
from unequal.artifacts.samplers import read_sampler
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json
from unequal.measures.loss_profile import weighted_change
from unequal.reporting.conditions import data_condition
from unequal.reporting.tables import Change, changes, plus_minus
from unequal.settings.recipe import Recipe
from unequal.timesteps.partition import Partition

#: Shares of draws are quotients: what they differ by below this is rounding.
ROUNDING = 1e-9

#: Steps over which changes are compared in tables and pictures.
STEPS = 100


class MeanChange(NamedTuple):
    """A figure and its standard error over draws."""

    value: float
    stderr: float

    def over(self, count: float) -> "MeanChange":
        """Per step, image and so on."""
        return MeanChange(self.value / count, self.stderr / count)

    @property
    def percent(self) -> str:
        """As text."""
        return f"{plus_minus(100 * self.value, 100 * self.stderr, signed=True)} %"


class TrainingFacts(NamedTuple):
    """How a model was trained on from the base."""

    lr: float
    steps: int
    images: int


@dataclass(frozen=True)
class Series:
    """Models that one recipe has made of the base.

    Attributes:
        losses: of each model on the base's draws, [T, n].
        shares: [m, K], the share of its timesteps that a model drew from each slot.
    """

    name: str
    training: TrainingFacts
    losses: tuple[np.ndarray, ...]
    shares: np.ndarray


@dataclass(frozen=True)
class Summary:
    """Mean relative change of the loss of slots, over all models of a series.

    Favoured slots were drawn more often than uniformly, neglected ones less often; None: there are none.
    Of training inside one slot these are the diagonal and all else of the matrix of interference.
    """

    name: str
    training: TrainingFacts
    favoured: MeanChange | None
    neglected: MeanChange | None
    every: MeanChange


@dataclass(frozen=True)
class TrainedOn:
    """What the study has measured.

    Attributes:
        losses: model → split → losses of all draws, [T, n]: base, one a further recipe, <recipe>_<slot>.
        floor: losses of the best possible denoiser on the training draws, [T, n], or [T, 0].
        slots: of equal loss; `finetuned` are those trained on inside, counted from 1.
        slot_sets: slots of equal loss (`total`) and of equal excess loss (`excess`).
        samplers: further recipe → probability of each timestep, [T], at the end of the training.
        trainings: recipe → how it trained.
        kinds: further recipe → kind of its sampler.
        control: the further recipe with uniform timesteps.
        data: facts of the data set.
    """

    losses: dict[str, dict[str, np.ndarray]]
    floor: np.ndarray
    schedule: NoiseSchedule
    slots: Partition
    slot_sets: dict[str, Partition]
    finetuned: tuple[int, ...]
    samplers: dict[str, np.ndarray]
    trainings: dict[str, TrainingFacts]
    kinds: dict[str, str]
    control: str
    data: dict[str, Any]

    @property
    def base(self) -> np.ndarray:
        """The base's training losses, [T, n]."""
        return self.losses["base"]["train"]

    @property
    def retrained(self) -> dict[str, dict[str, np.ndarray]]:
        """Losses of the base and of the models that were trained on with all timesteps."""
        return {name: self.losses[name] for name in ("base", *self.samplers)}

    @property
    def slot_recipes(self) -> list[str]:
        """Recipes that train inside one slot, by rising learning rate."""
        found = [name for name in self.trainings if name not in self.samplers]
        return sorted(found, key=lambda name: self.trainings[name].lr)

    def changes(self, recipe: str, split: str) -> list[Change]:
        """The matrix of interference of a slot recipe, row by row."""
        before = self.losses["base"][split]
        rows = [(slot, self.losses[f"{recipe}_{slot}"][split]) for slot in self.finetuned]
        return [one for slot, after in rows for one in changes(slot, before, after, self.slots)]

    def series(self, recipe: str) -> Series:
        """The models of a recipe, by their training losses."""
        if recipe in self.samplers:
            shares = self.slots.sums(self.samplers[recipe])[None]
            return Series(recipe, self.trainings[recipe], (self.losses[recipe]["train"],), shares)
        losses = tuple(self.losses[f"{recipe}_{slot}"]["train"] for slot in self.finetuned)
        inside = np.eye(len(self.slots))[np.array(self.finetuned) - 1]
        return Series(recipe, self.trainings[recipe], losses, inside)

    def summaries(self) -> list[Summary]:
        """Of slot recipes by rising learning rate, then of samplers."""
        return [summarise(self.series(name), self.base, self.slots) for name in (*self.slot_recipes, *self.samplers)]

    def conditions(self) -> dict[str, str]:
        """What the figures mean nothing without, as name → text."""
        draws = f"{self.base.shape[1]} draws a timestep and split, the same for every model"
        return {
            "data": data_condition(self.data),
            "loss profile": draws,
            "training seed": "one training of each model; standard errors are over draws",
        }


def read_trained_on(
    find: Callable[[str], Path],
    schedule: NoiseSchedule,
    recipes: Mapping[str, Recipe],
    further: Sequence[str],
    finetuned: Sequence[int],
    chosen: Interference,
) -> TrainedOn:
    """Read what the stages before the report have made.

    Args:
        find: turns a path within the study into one that exists.
        schedule: that all models were trained with.
        recipes: all settings of trainings; `further` are the names of those with samplers of their own.
        finetuned: slots that were trained on inside, counted from 1.
        chosen: recipes of that, and the control.

    Raises:
        UserError: something is missing or damaged.
    """
    profiles, samplers, metrics = find("artifacts/profiles"), find("artifacts/samplers"), find("results/metrics")
    names = ("base", *further, *(f"{recipe}_{slot}" for recipe in chosen.slot_recipes for slot in finetuned))
    first = {recipe: f"{recipe}_{finetuned[0]}" for recipe in chosen.slot_recipes} | {name: name for name in further}
    made = {recipe: read_json(metrics / f"train_{model}.json") for recipe, model in first.items()}
    return TrainedOn(
        losses={name: read_profile(profiles / f"{name}.npz") for name in names},
        floor=read_floor(profiles / "floor.npz"),
        schedule=schedule,
        slots=read_slots(find("artifacts/slots.json"), schedule.timesteps).slots,
        slot_sets=read_slot_sets(metrics / "slots.json"),
        finetuned=tuple(finetuned),
        samplers={name: read_sampler(samplers / f"{name}.json", schedule).probabilities for name in further},
        trainings={
            name: TrainingFacts(recipes[name].optimizer.lr, one["steps"], one["images_seen"])
            for name, one in made.items()
        },
        kinds={name: recipes[name].sampler.kind for name in further},
        control=chosen.control,
        data=PreparedData.open(find("artifacts/data")).facts,
    )


def attention(series: Series, slots: Partition) -> np.ndarray:
    """[m, K]: 1 where a model drew a slot more often than uniformly, −1 where less often."""
    tilt = series.shares - slots.shares
    return np.where(np.abs(tilt) < ROUNDING, 0, np.sign(tilt))


def mean_change(series: Series, before: np.ndarray, slots: Partition, chosen: np.ndarray) -> MeanChange | None:
    """Mean relative change over chosen [m, K] slots of models; None where none is chosen."""
    return MeanChange(*weighted_change(before, series.losses, slots, chosen / chosen.sum())) if chosen.any() else None


def summarise(series: Series, before: np.ndarray, slots: Partition) -> Summary:
    """What a way of training did to favoured and to neglected slots."""
    drawn = attention(series, slots)
    favoured, neglected = (mean_change(series, before, slots, drawn == sign) for sign in (1, -1))
    weights = np.full(drawn.shape, 1 / drawn.size)
    every = MeanChange(*weighted_change(before, series.losses, slots, weights))
    return Summary(series.name, series.training, favoured, neglected, every)
