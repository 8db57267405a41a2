"""Results of a pipeline run, read once for the whole report; a method that the settings do not name has none."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student_t

from unequal.data.grids import read_png, untiled
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.evaluation.blocks import contrast, degrees_of_freedom
from unequal.evaluation.loss_profile import Errors, relative_change
from unequal.evaluation.profiles import read_errors, read_floor
from unequal.report.figures import (
    Pruning,
    References,
    Score,
    Trained,
    TrainingCurve,
    computation,
    read_curve,
)
from unequal.report.formatting import signed, with_prefix
from unequal.report.heads import HeadWins, read_wins
from unequal.runtime.files import require
from unequal.timesteps.partition import Partition
from unequal.training.timestep_files import GroupTable, read_groups, read_sampler, read_slots

#: Prefixes of the names of sets of experts and of models of a slot; the base trained further; the model of three heads.
EXPERTS, SLOT, JOINT, MIXED = "experts_", "slot_", "longer", "mixed"
#: `sampling.solver` → its name in text.
SOLVERS = {"ddim": "DDIM", "heun": "Heun", "dpm_solver_2m": "DPM-Solver++ (2M)"}
SPLITS = ("train", "holdout")


class SlotChange(NamedTuple):
    """Relative change of a slot's summed loss after the base was fine-tuned on a slot; both count from 1."""

    finetuned: int
    slot: int
    change: float
    stderr: float


class Difference(NamedTuple):
    """Relative difference of two FIDs with its 95 % interval over sampling seeds, all as shares; None: unknown."""

    change: float
    low: float | None
    high: float | None

    @property
    def is_lower(self) -> bool:
        """Say whether the whole interval lies below 0."""
        return self.high is not None and self.high < 0

    def short(self) -> str:
        """Text of the change and its interval: `−23.2 % (−27.9 to −18.1)`."""
        change, *ends = [signed(100 * one) for one in self if one is not None]
        return f"{change} % ({' to '.join(ends)})" if ends else f"{change} %"


@dataclass(frozen=True)
class RunResults:
    """Results of a pipeline run.

    Attributes:
        scores: model → scores and costs.
        errors: profiled model → split → errors of all draws.
        floor: optimal-denoiser losses on the training draws, [T, n], or [T, 0].
        schedule: noise schedule of all models.
        slots: ranges of timesteps on which models were fine-tuned; None: no model is of one.
        groups: groups of timesteps, with their limits; None: there are no experts.
        prunings: group → figures of its pruned model.
        samplers: recipe → probability of each timestep, [T], at a few points of the training if it changes.
        trained: profiled training → its images; a set of experts has one a group.
        trainings: training of a scored model → its curve.
        references: the ends of the scale of FID.
        progress: number of images that the base has seen → samples from the same noise, uint8 [n, C, H, W].
        wins: wins of the heads of `mixed`; None: there is none.
        samples: model → images from the same noise, uint8 [n, C, H, W].
        data: the images.
    """

    scores: dict[str, Score]
    errors: dict[str, dict[str, Errors]]
    floor: np.ndarray
    schedule: NoiseSchedule
    slots: Partition | None
    groups: GroupTable | None
    prunings: dict[int, Pruning]
    samplers: dict[str, list[np.ndarray]]
    trained: dict[str, Trained]
    trainings: dict[str, TrainingCurve]
    references: References
    progress: dict[int, np.ndarray]
    wins: HeadWins | None
    samples: dict[str, np.ndarray]
    data: PreparedData

    @property
    def base(self) -> Score:
        return self.scores["base"]

    @property
    def control(self) -> str:
        """Name of the model that others are compared with: the base trained further, or the base."""
        return JOINT if JOINT in self.scores else "base"

    @property
    def ranked(self) -> list[str]:
        """Models that compete, the lowest FID first; models of single slots do not compete."""
        names = [name for name in self.scores if not name.startswith(SLOT)]
        return sorted(names, key=lambda name: self.scores[name].fid_mean)

    def in_order(self, by_model: Mapping[str, Any]) -> dict[str, Any]:
        """Sort by the models' FIDs; other models come last."""
        return {name: by_model[name] for name in dict.fromkeys([*self.ranked, *by_model]) if name in by_model}

    def losses(self, model: str, split: str = "train") -> np.ndarray:
        """Losses of all draws, [T, n]."""
        return self.errors[model][split].epsilon

    def differences(self) -> dict[str, Difference]:
        """Model → difference of its FID from the control's, the lowest first; a FID of 0 has none.

        All models start from the same noise at a seed, so seeds are blocks. The scatter is estimated from all
        models together, since the few seeds of one pair hardly show it.
        """
        control = self.control
        names = [name for name in self.ranked if min(self.scores[name].fids) > 0]
        if control not in names:
            return {}
        logs = np.log([self.scores[name].fids for name in names])
        number = names.index(control)
        return {name: difference_of(logs, i, number) for i, name in enumerate(names) if name != control}

    def slot_changes(self, split: str) -> list[SlotChange]:
        """Changes of all slots' losses after fine-tuning the base on one of them."""
        before, changes = self.losses("base", split), []
        for number in sorted(int(name.removeprefix(SLOT)) for name in self.errors if name.startswith(SLOT)):
            after = self.losses(f"{SLOT}{number}", split)
            for i, slot in enumerate(self.slots or (), start=1):
                changes.append(SlotChange(number, i, *relative_change(before[slot.slice], after[slot.slice])))
        return changes

    def seconds(self, model: str) -> float:
        """Seconds of processors, or of GPUs, of all trainings that lead to a model."""
        parts = parts_of(model, self.group_numbers)
        own = sum(float(self.trainings[part].images[-1]) for part in parts if len(self.trainings[part].images))
        continued = model != "base" and self.scores[model].images_seen > own
        return float(sum(self.trainings[part].seconds.sum() for part in [*parts, *(["base"] if continued else [])]))

    @property
    def group_numbers(self) -> range:
        return range(0 if self.groups is None else len(self.groups.groups))

    @property
    def processor(self) -> str:
        """What computed: its time is a training's."""
        return "processor" if self.base.device == "cpu" else "GPU"

    @property
    def fid_name(self) -> str:
        """FID with the kind of its features, except for Inception's: other kinds give other numbers."""
        kind = self.base.extractor.partition("-")[0]
        return "FID" if kind == "inception" else f"FID ({kind})"

    def conditions(self) -> dict[str, str]:
        """Conditions that the figures depend on, name → text."""
        base, way = self.base, computation(self.trained["base"].model_dump())
        seeds, accuracy = ", ".join(map(str, base.sampling_seeds)), base.extractor_accuracy
        tested = "rotations of " if base.extractor.startswith("rotations") else ""
        return {
            "data": data_condition(self.data.facts),
            "reference": base.reference,
            "features": f"{base.features} of {base.extractor}"
            + ("" if accuracy is None else f"; accuracy {100 * accuracy:.1f} % of {tested}held-out images")
            + (" (fewer samples than features: singular covariance)" if base.singular_covariance else ""),
            "samples": f"{base.samples_per_seed} a sampling seed, from the same noise for every model",
            "sampling seeds": f"{seeds}{'; ± is the standard deviation over them' if ',' in seeds else ''}",
            "sampling": sampling_condition(base.sampling.model_dump()),
            "computed on": f"{base.device}, in fp32: {base.fp32}",
            "base": f"{with_prefix(base.parameters)} parameters, {with_prefix(base.images_seen)} images, "
            f"{self.schedule.timesteps} timesteps{f', trained in {way}' if way else ''}",
            "training seed": f"{base.training_seed}, one training of each model",
            "loss profile": f"{self.losses('base').shape[1]} draws a timestep and split, the same for every model",
        }


def read_results(
    find: Callable[[str], Path],
    profiled: Sequence[str],
    scored: Sequence[str],
    recipes: Sequence[str],
    groups: Sequence[int],
) -> RunResults:
    """Read the results of the stages before the report. Raises UserError where something is missing or damaged.

    Args:
        find: path within the project → its location.
        profiled, scored: names of models.
        recipes: that train the base further.
        groups: numbers of all groups of timesteps.
    """
    names = {*scored, *profiled}
    further = [recipe for recipe in recipes if recipe in names]
    experts = [name for name in names if name.startswith(EXPERTS)]
    profiles, samples, scores = find("artifacts/profiles"), find("artifacts/samples"), find("results/fid")
    metrics = find("results/metrics")
    trained = {
        part: Trained.read(metrics / f"train_{part}.json") for name in profiled for part in parts_of(name, groups)
    }
    if (spec := trained["base"].spec) is None:
        raise UserError(f"{metrics / 'train_base.json'}: lacks its spec; make it again")
    schedule = spec.noise_schedule()
    grouping = read_groups(find("artifacts/groups.json")) if experts else None
    slots = None
    if further or any(name.startswith(SLOT) for name in names):
        slots = read_slots(find("artifacts/slots.json"), schedule.timesteps).slots
    samplers = {name: read_sampler(find("artifacts/samplers") / f"{name}.json", schedule) for name in further}
    return RunResults(
        scores=read_scores(scores, scored),
        errors={
            model: {split: read_errors(profiles / f"{model}.npz", split) for split in SPLITS} for model in profiled
        },
        floor=read_floor(profiles / "floor.npz"),
        schedule=schedule,
        slots=slots,
        groups=grouping,
        prunings={
            group: Pruning.read(metrics / f"prune_expert_group_{group}.json")
            for group in (groups if f"{EXPERTS}pruned" in names else ())
        },
        samplers={name: sampler.over_training() for name, sampler in samplers.items()},
        trained=trained,
        trainings={
            part: read_curve(find("results/training") / f"{part}.csv")
            for part in dict.fromkeys(part for model in scored for part in parts_of(model, groups))
        },
        references=References.read(scores / "reference.json"),
        progress=read_progress(find("artifacts/progress") / "base"),
        wins=read_wins(find("artifacts/statistics/mixed.npz")) if MIXED in names else None,
        samples={model: read_images(samples / f"{model}.npy") for model in scored},
        data=PreparedData.open(find("artifacts/data")),
    )


def difference_of(logs: np.ndarray, model: int, control: int) -> Difference:
    """Difference of the ln FID of two of the models [A, B]; its interval is unknown where B is a single seed."""
    if logs.shape[1] == 1:
        return Difference(math.expm1(logs[model, 0] - logs[control, 0]), None, None)
    middle, error = contrast(logs, model, control)
    reach = float(student_t.ppf(0.975, degrees_of_freedom(logs))) * error
    change, low, high = (math.expm1(middle + side * reach) for side in (0, -1, 1))
    return Difference(change, low, high)


def parts_of(model: str, groups: Sequence[int]) -> list[str]:
    """Names of a model's own trainings: one a group for experts."""
    return [f"{model}_group_{group}" for group in groups] if model.startswith(EXPERTS) else [model]


def read_scores(folder: Path, models: Sequence[str]) -> dict[str, Score]:
    """Read the models' scores. Raises UserError where one was scored at other sampling seeds than the base."""
    scores = {model: Score.read(folder / f"{model}.json") for model in models}
    seeds = scores["base"].sampling_seeds
    for model, score in scores.items():
        if score.sampling_seeds != seeds or len(score.scores) != len(seeds):
            raise UserError(
                f"{folder / model}.json: {len(score.scores)} scores at sampling seeds {list(score.sampling_seeds)}; "
                f"the base has {len(seeds)} at {list(seeds)}; make it again"
            )
    return scores


def read_progress(folder: Path) -> dict[int, np.ndarray]:
    """Read a training's grids of samples: number of images seen → samples at that point, [n, C, H, W].

    Raises UserError where a grid is missing or damaged.
    """
    try:
        grids = {int(file.stem): read_png(file) for file in sorted(require(folder).glob("*.png"))}
        return {images: untiled(grid) for images, grid in grids.items()}
    except (ValueError, OSError) as error:
        raise UserError(f"{folder}: damaged ({error}); make it again") from None


def read_images(path: Path) -> np.ndarray:
    """Read images [n, C, H, W]. Raises UserError where the file is missing or damaged."""
    try:
        images: np.ndarray = np.load(require(path), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise UserError(f"{path}: damaged ({error}); make it again") from None
    return images


def sampling_condition(sampling: Mapping[str, Any]) -> str:
    """Describe the settings of sampling in a line."""
    count = sampling["steps"]
    steps = f"{count} steps, {sampling['spacing']} spacing" if isinstance(count, int) else f"{len(count)} listed steps"
    clipped = "clipped" if sampling["clip"] else "not clipped"
    return f"{SOLVERS[sampling.get('solver', 'ddim')]}, {steps}, η = {sampling['eta']:g}, predicted images {clipped}"


def data_condition(data: Mapping[str, Any]) -> str:
    """Describe the data set in a line."""
    n_train, n_held = (last - first for first, last in (data["split"]["train"], data["split"]["holdout"]))
    size, copies = "×".join(map(str, reversed(data["shape"]))), data.get("copies", {}).get("holdout")
    repeated = f"; {copies} held-out ones are copies of another" if copies else ""
    return f"{data['source']}, {n_train} training and {n_held} held-out images of {size} values{repeated}"
