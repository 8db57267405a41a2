"""The declaration of an experiment: a whole params file whose section `experiment` names variants as changes of it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.diffusion.schedule import noise_schedule
from unequal.errors import UserError
from unequal.experts.plan import check_plan
from unequal.experts.reach import check_reach
from unequal.settings.core import FRESH, THREE_HEADS, Core, Role
from unequal.settings.evaluation import Profile
from unequal.settings.groups import Plan
from unequal.settings.params import Scored
from unequal.settings.recipe import Recipe
from unequal.settings.strict import PARAMS, Strict, read_yaml, validate
from unequal.settings.values import Name, Seed
from unequal.timesteps.groups import foreseen_groups
from unequal.training.optimizer import check_optimizers
from unequal.training.three_heads import PERIODS

#: Endpoints of a training, of which lower is better: means of the loss of held-out images, and FID.
Endpoint = Literal["loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr", "fid"]
#: Keys below which variants may differ; the first five shape the training.
TRAINED = ("schedule", "network", "training", "recipes.base", "plan")
DIFFERING = (*TRAINED, "sampling")
#: Key of a variant that names another one, whose changes it takes over.
LIKE = "like"


class Rates(Strict):
    """Learning rates that every variant is tried with, in shorter trainings on seeds of their own.

    Each is measured on the half of the held-out images that is not reported.
    """

    factors: tuple[PositiveFloat, ...] = Field(min_length=2, description="of each variant's own learning rate")
    seeds: tuple[Seed, ...] = Field(min_length=1)
    share: float = Field(default=0.25, gt=0, le=1, description="of the images of a training")
    by: Endpoint = "loss_over_timesteps"


class Experiment(Strict):
    """Variants, each trained once by every seed, and what is asked about them, settled before the first training."""

    question: str = Field(min_length=1, description="heading of the page")
    variants: dict[Name, dict[str, Any]] = Field(
        min_length=2, description="name → dotted key of this file → value; {}: the file as it is"
    )
    seeds: tuple[Seed, ...] = Field(description="of weights, batches and noise, the same for all variants")
    endpoints: dict[Endpoint, PositiveFloat] = Field(
        min_length=1, description="endpoint → δ: the difference of its logarithm within which two variants are the same"
    )
    contrasts: tuple[tuple[Name, Name], ...] = Field(
        min_length=1, description="[variant, control]: the comparisons that are judged"
    )
    rates: Rates | None = Field(default=None, description="null: each variant is trained at the rate of its recipe")

    @model_validator(mode="after")
    def seeds_show_scatter(self) -> Self:
        """Trainings scatter, which two seeds or more show; a seed that chose a rate reports nothing."""
        if len(set(self.seeds)) < max(2, len(self.seeds)):
            raise ValueError(f"seeds: {list(self.seeds)}; allowed: two or more, each once")
        if self.rates and (shared := set(self.seeds) & set(self.rates.seeds)):
            raise ValueError(f"rates.seeds: {min(shared)} is among `seeds`, which report; allowed: others")
        return self

    @model_validator(mode="after")
    def names_are_variants(self) -> Self:
        """Contrasts and likenesses name variants."""
        for name in self.variants:
            if re.fullmatch(r"base_\d+|.*_rate_\d+", name):
                raise ValueError(f"variants.{name}: the name of a base, or of a rate that is tried; allowed: another")
            chain = [name]
            while (other := self.variants[chain[-1]].get(LIKE)) is not None:
                if other not in self.variants or other in chain:
                    raise ValueError(f"variants.{chain[-1]}.like: {other!r}; allowed: another variant, in no circle")
                chain.append(other)
        for pair in self.contrasts:
            if unknown := [name for name in pair if name not in self.variants]:
                raise ValueError(f"contrasts: '{unknown[0]}' is no variant; there is: {', '.join(self.variants)}")
        if len(set(self.contrasts)) < len(self.contrasts):
            raise ValueError("contrasts: one stands twice")
        return self


class Variant(Scored):
    """All settings of one variant: a recipe from fresh weights; with a plan, models that continue what it trains."""

    profile: Profile
    plan: Plan | None = Field(default=None, description="how variants continue the base; null: from fresh weights")

    @property
    def base(self) -> Recipe:
        """The recipe from fresh weights."""
        return self.recipes["base"]

    @property
    def roles(self) -> dict[str, Role]:
        return {"base": THREE_HEADS if self.samples_three_heads else FRESH}

    @property
    def samples_three_heads(self) -> bool:
        return "base" in self.recipes and self.base.prediction == "mixed"

    @property
    def placed_recipes(self) -> dict[str, Recipe]:
        return super().placed_recipes | ({} if self.plan is None else {"plan.recipe": self.plan.recipe})

    @property
    def pruning_limits(self) -> dict[str, float]:
        if self.plan is None or self.plan.pruning is None:
            return {}
        groups = foreseen_groups(self.plan.groups, noise_schedule(self.schedule))
        return {"plan.groups": min(group.limit_ratio for group in groups)}

    @model_validator(mode="after")
    def seeds_differ_in_their_weights(self) -> Self:
        """One set of pretrained weights would make all seeds one."""
        if self.network.pretrained is not None:
            raise ValueError(
                f"network.pretrained: '{self.network.pretrained}'; trainings begin with fresh weights: null"
            )
        return self

    @model_validator(mode="after")
    def trainings_can_be_carried_out(self) -> Self:
        """A plan fits its base, and three heads see enough batches."""
        needed = PERIODS * self.training.batch_size
        if self.samples_three_heads and self.base.images < needed:
            raise ValueError(f"recipes.base.images: {self.base.images}; three heads need {needed} at least")
        if self.plan is None:
            return self
        if self.plan.groups.needs_excess:
            raise ValueError(
                f"plan.groups.kind: '{self.plan.groups.kind}' needs an optimal denoiser's loss, not measured"
            )
        try:
            check_plan(self.plan, noise_schedule(self.schedule), self.base, self.training.batch_size)
        except UserError as error:
            raise ValueError(f"plan.{error}") from None
        return self


class Declaration(Variant):
    """The params file of an experiment."""

    experiment: Experiment
    trainings: dict[str, Any] = Field(default={}, description="written by `unequal compare`, for the stages")
    plans: dict[str, Any] = Field(default={}, description="written by `unequal compare`, for the stages")
    measured: dict[str, Any] = Field(default={}, description="written by `unequal compare`, for the stages")


@dataclass(frozen=True)
class Declared:
    """A declaration that has been read, with the settings of each variant as a document and as checked settings."""

    experiment: Experiment
    document: dict[str, Any]
    documents: Mapping[str, dict[str, Any]]
    variants: Mapping[str, Variant]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a params file and the settings of all variants. Raises UserError where one is not sound."""
        whole = read_yaml(path)
        if "experiment" not in whole:
            raise UserError(f"{path}: experiment: missing; allowed: a section that declares variants and contrasts")
        return cls.of(Declaration.read(path).experiment, whole, path)

    @classmethod
    def of(cls, experiment: Experiment, whole: dict[str, Any], path: Path) -> Self:
        """Make the settings of all variants from the content of a params file."""
        base = {name: value for name, value in whole.items() if name in Variant.model_fields}

        def made(name: str) -> dict[str, Any]:
            changes = experiment.variants[name]
            document = made(changes[LIKE]) if LIKE in changes else base
            for dotted, value in changes.items():
                if dotted != LIKE:
                    document = changed(document, dotted, value, f"{path}: experiment.variants.{name}")
            return document

        documents = {name: made(name) for name in experiment.variants}
        variants = {
            name: validate(Variant, document, Path(f"{path}: experiment.variants.{name}"))
            for name, document in documents.items()
        }
        declared = cls(experiment, whole, documents, variants)
        for variant, control in experiment.contrasts:
            if not declared.difference(variant, control):
                raise UserError(f"{path}: experiment.contrasts: [{variant}, {control}]: their settings do not differ")
        return declared

    def settings(self, name: str, keys: tuple[str, ...] = DIFFERING) -> dict[str, Any]:
        """Settings of a variant in which it may differ from others."""
        return {key: at(self.documents[name], key) for key in keys}

    def difference(self, variant: str, control: str) -> dict[str, tuple[Any, Any]]:
        """Dotted key → values of a variant and of its control, where they differ."""
        return dict(differences(self.settings(variant), self.settings(control)))

    def named(self, variant: str, control: str) -> str:
        """Name of a contrast: what differs between both sides' settings."""
        parts = self.difference(variant, control).items()
        return ", ".join(f"{key.removeprefix('recipes.base.')}: {short(a)}, not {short(b)}" for key, (a, b) in parts)

    def training_of(self, name: str) -> str:
        """The first variant that is trained by the same settings: what differs in sampling alone is trained once."""
        own = self.settings(name, TRAINED)
        return next(other for other in self.documents if self.settings(other, TRAINED) == own)


def check_variants(declaration: Core) -> None:
    """Raise UserError for a variant that is unsound, or cannot be pruned or trained, or a contrast without effect."""
    if isinstance(declaration, Declaration):
        declared = Declared.of(declaration.experiment, declaration.model_dump(mode="json", exclude_unset=True), PARAMS)
        for variant in declared.variants.values():
            check_reach(variant)
            check_optimizers(variant)


def changed(document: Mapping[str, Any], dotted: str, value: Any, place: str) -> dict[str, Any]:
    """Copy a document with another value at a dotted key. Raises UserError where variants may not differ there."""
    if not any(f"{dotted}.".startswith(f"{allowed}.") for allowed in DIFFERING):
        raise UserError(f"{place}: '{dotted}': variants do not differ there; allowed: below {', '.join(DIFFERING)}")

    def inside(part: Any, keys: list[str]) -> dict[str, Any]:
        first, *rest = keys
        if not isinstance(part, dict) or (rest and first not in part):
            raise UserError(f"{place}: '{dotted}': there is no section '{first}' in this file")
        return part | {first: inside(part[first], rest) if rest else value}

    return inside(dict(document), dotted.split("."))


def at(document: Any, dotted: str) -> Any:
    """Value at a dotted key; None where there is none."""
    for key in dotted.split("."):
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield dotted keys at which two documents differ, with both values; a section of another kind is one value."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and kind_of(one) == kind_of(other):
        for key in dict.fromkeys([*one, *other]):
            yield from differences(one.get(key), other.get(key), f"{place}.{key}".removeprefix("."))
    elif one != other:
        yield place, (one, other)


def kind_of(section: Mapping[str, Any]) -> Any:
    """What says of a section which keys it has."""
    return next((section[key] for key in ("kind", "density", "method") if key in section), None)


def short(value: Any) -> str:
    """Text of a value; a section is named by its kind, if it has one."""
    if isinstance(value, Mapping):
        return str(kind_of(value) or "set")
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
