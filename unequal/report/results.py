"""Results of a pipeline run, read once for the whole report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from unequal.data.grids import read_png, untiled
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.evaluation.loss_profile import Errors, relative_change
from unequal.evaluation.profiles import read_errors, read_floor, read_profile
from unequal.report.figures import (
    ComputationFigures,
    PruningFigures,
    ReferenceFigures,
    ScoreFigures,
    SearchFigures,
    SeedFigures,
    SeenFigures,
    TrainingCurve,
    computation,
    read_curve,
    read_figures,
)
from unequal.report.formatting import with_prefix
from unequal.report.heads import HeadWins, read_wins
from unequal.report.memorizing import spread
from unequal.runtime.files import require
from unequal.timesteps.partition import Partition
from unequal.training.timestep_files import GroupTable, read_groups, read_sampler, read_slots

#: Prefix of the names of sets of experts; the base trained further for as many images; the model of three heads.
EXPERTS, JOINT, MIXED = "experts_", "longer", "mixed"
#: `sampling.solver` → its name in text.
SOLVERS = {"ddim": "DDIM", "heun": "Heun", "dpm_solver_2m": "DPM-Solver++ (2M)"}


@dataclass(frozen=True)
class Variant:
    """Scores and costs of a model or a set of experts.

    FLOPs are multiply–accumulates. `fid_sd` and similar fields are standard deviations over sampling seeds; None: one
    seed. `parameters` counts all networks together, and `parameters_per_step` is the mean over predictions. `steps` are
    the sampling steps of each expert, from the data end to the noise end; a single model takes all. `fid_half` is the
    FID of the first half of the samples. None: not measured.
    """

    name: str
    fid: float
    fid_sd: float | None
    kid: float
    kid_sd: float | None
    seeds: int
    images_seen: int
    training_flops: int
    sampling_flops: int
    parameters: int
    steps: tuple[int, ...]
    fid_half: float | None = None
    precision: float | None = None
    precision_sd: float | None = None
    recall: float | None = None
    recall_sd: float | None = None
    parameters_per_step: float | None = None

    @property
    def idle(self) -> list[int]:
        """Numbers of the experts without a sampling step, which no score covers."""
        return [number for number, count in enumerate(self.steps) if count == 0]

    @classmethod
    def of(cls, name: str, facts: Mapping[str, Any]) -> Self:
        """Take the figures of results/fid/<name>.json."""
        seeds, scores = len(facts["sampling_seeds"]), dict[str, Any]()
        for score in ("fid", "kid", "precision", "recall"):
            scores |= {score: facts[f"{score}_mean"], f"{score}_sd": facts[f"{score}_sd"] if seeds > 1 else None}
        return cls(
            name=name,
            **scores,
            fid_half=facts["fid_half_mean"],
            seeds=seeds,
            images_seen=facts["images_seen"],
            training_flops=facts["training_flops"],
            sampling_flops=facts["sampling_flops_per_image"],
            parameters=facts["parameters"],
            parameters_per_step=facts["parameters_per_step"],
            steps=tuple(facts["sampling_steps_per_expert"]),
        )


def steps_of_experts(variants: Mapping[str, Variant]) -> tuple[int, ...]:
    """Sampling steps of each group's expert; empty: no experts were scored."""
    return next((one.steps for name, one in variants.items() if name.startswith("experts_")), ())


@dataclass(frozen=True)
class Change:
    """Relative change of a slot's summed loss after the base was fine-tuned on this slot or another.

    Slots count from 1; `stderr` is the standard error of paired draws.
    """

    finetuned: int
    slot: int
    change: float
    stderr: float

    @property
    def own(self) -> bool:
        """Say whether the slot is the fine-tuned one."""
        return self.finetuned == self.slot


def changes(finetuned: int, before: np.ndarray, after: np.ndarray, slots: Partition) -> list[Change]:
    """Compute the change of every slot's loss.

    Args:
        finetuned: the fine-tuned slot, counted from 1.
        before, after: losses of the same draws, [T, n].
        slots: partition of the T timesteps.
    """
    found = [relative_change(before[slot.slice], after[slot.slice]) for slot in slots]
    return [Change(finetuned, number, *change) for number, change in enumerate(found, 1)]


class Seen(NamedTuple):
    """Numbers of images of a model's own training, and of the base that it starts from, on all timesteps."""

    own: int
    inherited: int


@dataclass(frozen=True)
class RunResults:
    """Results of a pipeline run.

    Attributes:
        losses: model → split → losses of all draws, [T, n].
        floor: optimal-denoiser losses on the training draws, [T, n], or [T, 0].
        schedule: noise schedule of all models.
        slots: ranges of timesteps on which models were fine-tuned.
        groups: groups of timesteps, with their limits.
        group_shares: FLOPs of each group's pruned model as a share of the base's.
        searches: group → figures of its pruned model, for groups pruned by a search.
        experts: profiled set of experts → images of each expert.
        joint: images of the base trained further on all timesteps; None: not profiled.
        samplers: recipe → probability of each timestep, [T], at a few points of the training if it changes.
        variants: variant → scores and costs.
        seed_fids: variant → FID at each sampling seed.
        errors: profiled model → its errors on held-out draws.
        trainings: name of a training → its curve; experts have one training per group.
        references: content of results/fid/reference.json.
        progress: number of images that the base has seen → samples from the same noise, uint8 [n, C, H, W].
        wins: wins of the heads of `mixed`; None: it is neither profiled nor scored.
        samples: variant → images from the same noise, uint8 [n, C, H, W].
        real: held-out images, at most as many as samples, evenly spread over the data.
        data, base: facts of the data set, and of the base's scores.
        trained: how the base was computed, as the end of a condition.
    """

    losses: dict[str, dict[str, np.ndarray]]
    floor: np.ndarray
    schedule: NoiseSchedule
    slots: Partition
    groups: GroupTable
    group_shares: list[float]
    searches: dict[int, dict[str, Any]]
    experts: dict[str, list[Seen]]
    joint: Seen | None
    samplers: dict[str, list[np.ndarray]]
    variants: dict[str, Variant]
    seed_fids: dict[str, list[float]]
    errors: dict[str, Errors]
    trainings: dict[str, TrainingCurve]
    references: dict[str, Any]
    progress: dict[int, np.ndarray]
    wins: HeadWins | None
    samples: dict[str, np.ndarray]
    real: np.ndarray
    data: dict[str, Any]
    base: dict[str, Any]
    trained: str

    def changes(self, split: str, finetuned: Sequence[int]) -> list[Change]:
        """Changes of all slots' losses after fine-tuning each of these; slots that were not profiled are left out."""
        before = self.losses["base"][split]
        return [
            one
            for slot in finetuned
            if f"slot_{slot}" in self.losses
            for one in changes(slot, before, self.losses[f"slot_{slot}"][split], self.slots)
        ]

    def seconds(self, variant: str) -> float:
        """Seconds of all trainings of a variant, including the base's if they continue it."""
        continued = variant != "base" and self.variants[variant].images_seen > self.own_images(variant)
        parts = [*trained_parts(variant, range(len(self.groups.groups))), *(["base"] if continued else [])]
        return sum(self.trainings[part].seconds for part in parts)

    def own_images(self, variant: str) -> float:
        """Images of a variant's own trainings, without those of the base that they continue."""
        parts = trained_parts(variant, range(len(self.groups.groups)))
        return sum(float(self.trainings[part].images[-1]) for part in parts if len(self.trainings[part].images))

    @property
    def fid_name(self) -> str:
        """FID with the kind of its features, except for Inception's: other kinds give other numbers."""
        kind = self.base["extractor"].partition("-")[0]
        return "FID" if kind == "inception" else f"FID ({kind})"

    def conditions(self) -> dict[str, str]:
        """Conditions that the figures depend on, name → text."""
        base = self.variants["base"]
        return scoring_conditions(self.data, self.base) | {
            "base": f"{with_prefix(base.parameters)} parameters, {with_prefix(base.images_seen)} images, "
            f"{self.schedule.timesteps} timesteps{self.trained}",
            "training seed": str(self.base["training_seed"]),
            "loss profile": f"{self.losses['base']['train'].shape[1]} draws a timestep and split, "
            "the same for every model",
        }


def read_results(
    find: Callable[[str], Path],
    models: Sequence[str],
    variants: Sequence[str],
    recipes: Sequence[str],
    groups: Sequence[int],
) -> RunResults:
    """Read the results of the stages before the report. Raises UserError where something is missing or damaged.

    `find` returns the location of a path within the project. `models` are profiled, `variants` scored; `groups` are
    numbers, and `recipes` train the base further.
    """
    profiles, samples, scores = find("artifacts/profiles"), find("artifacts/samples"), find("results/fid")
    samplers, metrics = find("artifacts/samplers"), find("results/metrics")
    data = PreparedData.open(find("artifacts/data"))
    facts = {variant: read_figures(scores / f"{variant}.json", ScoreFigures) for variant in variants}
    shown = {variant: read_images(samples / f"{variant}.npy") for variant in variants}
    grouping = read_groups(find("artifacts/groups.json"))
    schedule = NoiseSchedule.named(grouping.schedule, grouping.timesteps, grouping.shift)
    shares, searches = read_prunings(metrics, groups)
    way = computation(read_figures(metrics / "train_base.json", ComputationFigures))
    trained = dict.fromkeys(part for variant in variants for part in trained_parts(variant, groups))
    return RunResults(
        losses={model: read_profile(profiles / f"{model}.npz") for model in models},
        floor=read_floor(profiles / "floor.npz"),
        schedule=schedule,
        slots=read_slots(find("artifacts/slots.json"), schedule.timesteps).slots,
        groups=grouping,
        group_shares=shares,
        searches=searches,
        experts={
            name: [read_seen(metrics, part) for part in trained_parts(name, groups)]
            for name in models
            if name.startswith(EXPERTS)
        },
        joint=read_seen(metrics, JOINT) if JOINT in models else None,
        samplers={recipe: read_sampler(samplers / f"{recipe}.json", schedule).over_training() for recipe in recipes},
        variants={variant: Variant.of(variant, facts[variant]) for variant in variants},
        seed_fids={name: seed_fids(scores / f"{name}.json", facts["base"]["sampling_seeds"]) for name in variants},
        errors={model: read_errors(profiles / f"{model}.npz") for model in models},
        trainings={part: read_curve(find("results/training") / f"{part}.csv") for part in trained},
        references=read_figures(scores / "reference.json", ReferenceFigures),
        progress=read_progress(find("artifacts/progress") / "base"),
        wins=read_wins(find("artifacts/statistics/mixed.npz")) if MIXED in {*models, *variants} else None,
        samples=shown,
        real=spread(data.holdout, len(shown["base"])),
        data=data.facts,
        base=facts["base"],
        trained=f", trained in {way}" if way else "",
    )


def read_prunings(metrics: Path, groups: Sequence[int]) -> tuple[list[float], dict[int, dict[str, Any]]]:
    """Shares of the base's FLOPs of all pruned models, and group → figures of the search that made its model, if any.

    Raises UserError where a file is missing or damaged.
    """
    files = {group: metrics / f"prune_expert_group_{group}.json" for group in groups}
    found = {group: read_figures(file, PruningFigures) for group, file in files.items()}
    searched = {group: read_figures(files[group], SearchFigures) for group in groups if "candidates" in found[group]}
    return [one["share_of_base"] for one in found.values()], searched


def trained_parts(variant: str, groups: Sequence[int]) -> list[str]:
    """Names of a variant's own trainings: one per group for experts."""
    return [f"{variant}_group_{group}" for group in groups] if variant.startswith(EXPERTS) else [variant]


def read_seen(metrics: Path, model: str) -> Seen:
    """Read a model's numbers of images from the figures of its training."""
    figures = read_figures(metrics / f"train_{model}.json", SeenFigures)
    return Seen(figures["images_seen"], figures["inherited_images"])


def seed_fids(path: Path, seeds: Sequence[int]) -> list[float]:
    """FID at each sampling seed. Raises UserError if a variant was scored at other seeds than the base."""
    facts = read_figures(path, SeedFigures)
    if facts["sampling_seeds"] != list(seeds) or len(facts["scores"]) != len(seeds):
        raise UserError(
            f"{path}: {len(facts['scores'])} scores at sampling seeds {facts['sampling_seeds']}; the base has "
            f"{len(seeds)} at {list(seeds)}; make it again"
        )
    return [score["fid"] for score in facts["scores"]]


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


def scoring_conditions(data: Mapping[str, Any], scores: Mapping[str, Any]) -> dict[str, str]:
    """Conditions that scores depend on, name → text.

    Args:
        data: facts of the data set.
        scores: figures of any one scored variant, since conditions are equal for all.
    """
    seeds = ", ".join(map(str, scores["sampling_seeds"]))
    spread = "; spreads are standard deviations over them" if len(scores["sampling_seeds"]) > 1 else ""
    singular = " (fewer samples than features: singular covariance)" if scores["singular_covariance"] else ""
    accuracy = scores.get("extractor_accuracy")  # only for an extractor trained in the run
    tested = "rotations, learned without labels, of " if scores["extractor"].startswith("rotations") else ""
    accurate = "" if accuracy is None else f"; accuracy {100 * accuracy:.1f} % of {tested}held-out images"
    return {
        "data": data_condition(data),
        "reference": scores["reference"],
        "features": f"{scores['features']} of {scores['extractor']}{accurate}{singular}",
        "samples": f"{scores['samples_per_seed']} a sampling seed, from the same noise for every variant",
        "sampling seeds": f"{seeds}{spread}",
        "sampling": sampling_condition(scores["sampling"]),
        "computed on": f"{scores['device']}, in fp32: {scores['fp32']}",
    }


def sampling_condition(sampling: Mapping[str, Any]) -> str:
    """Describe the settings of sampling in a line."""
    listed = not isinstance(sampling["steps"], int)
    steps = f"{len(sampling['steps'])} listed steps" if listed else f"{sampling['steps']} steps"
    spacing = "" if listed else f", {sampling['spacing']} spacing"
    return (
        f"{SOLVERS[sampling.get('solver', 'ddim')]}, {steps}{spacing}, η = {sampling['eta']:g}, predicted images "
        f"{'clipped' if sampling['clip'] else 'not clipped'}"
    )


def data_condition(data: Mapping[str, Any]) -> str:
    """Describe the data set in a line."""
    n_train, n_held = (last - first for first, last in (data["split"]["train"], data["split"]["holdout"]))
    size = "×".join(map(str, reversed(data["shape"])))
    copies = data.get("copies", {}).get("holdout")  # a record of an earlier commit has none
    equal = f"; {copies} held-out ones repeat another held-out one, none a training image" if copies else ""
    return f"{data['source']}, {n_train} training and {n_held} held-out images of {size} values{equal}"
