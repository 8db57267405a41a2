"""`race`: which recipe trains best within a budget; variants change one recipe, rungs say who is trained how long."""

from typing import Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from unequal.diffusion.predictions import ModelPrediction
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.evaluation import BY_PROFILE, Sampling
from unequal.settings.groups import SeveralGroups
from unequal.settings.loss_weights import AnyLossWeight
from unequal.settings.recipe import Optimizer, Recipe
from unequal.settings.samplers import AnySampler, OverSlots
from unequal.settings.strict import Strict
from unequal.settings.training import Average, ExponentialAverage, Training
from unequal.settings.values import BatchSize, Budget, DrawCount, Name, Seed
from unequal.timesteps.partition import Partition

#: Shares of the images below which short trainings order variants badly.
LEAST_SHARE = 1 / 8
#: Whole trainings of a variant, one a seed, without which nothing is known of their scatter.
LEAST_BLOCKS = 2


class Experts(Strict):
    """Experts on a base of the same recipe: together they see the images that the base leaves, in equal parts.

    None is pruned, so that they cost the training FLOPs of any variant.
    """

    kind: Literal["snr", "timestep_clusters", "log_snr_clusters"] = Field(
        description="groups of equal intervals of SNR in dB (paper 3), or of the least spread in t or in log-SNR"
    )
    count: int = Field(ge=2, description="groups, each with a model of its own")
    base_share: float = Field(gt=0, lt=1, description="of the images, for the base")

    @property
    def groups(self) -> SeveralGroups:
        """The groups; their limits of FLOPs are for pruning, and here is none."""
        return SeveralGroups(kind=self.kind, count=self.count, min_ratio=0.5)

    def check(self, images: int, batch_size: int, schedule: NoiseSchedule) -> None:
        """Raise UserError where there are no such groups, ValueError where a training's images do not suffice."""
        self.groups.made(schedule)
        base = int(self.base_share * images)
        least = min(base, (images - base) // self.count)
        if least < batch_size:
            raise ValueError(f"{images} images leave {least} to the base or a group; a batch takes {batch_size}")


class Arm(Strict):
    """Changes of the race's recipe that make a variant; {}: none."""

    images: Budget | None = Field(default=None, description="must be the recipe's: variants see equally many images")
    prediction: ModelPrediction | None = None
    sampler: AnySampler | None = None
    loss_weight: AnyLossWeight | None = None
    optimizer: Optimizer | None = None
    average: Average | None = None
    batch_size: BatchSize | None = Field(
        default=None,
        description="images an optimizer step; null: as in `training`; another rules short trainings out",
    )

    experts: Experts | None = Field(default=None, description="trained on a base of the recipe; null: one model")

    def of(self, recipe: Recipe) -> Recipe:
        """The variant's recipe. Raises ValueError where the choices do not fit together."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name in Recipe.model_fields}
        changes = {name: value for name, value in own.items() if value is not None}
        return Recipe(**({name: getattr(recipe, name) for name in recipe.model_fields_set} | changes))


class MeasuredSlots(Strict):
    """Slots of equal loss, by the profile of the control's first training, for variants that draw from slots."""

    count: int = Field(ge=2, description="paper 1 has ten")
    images: DrawCount = Field(ge=2, description="training images a timestep")
    batch_size: BatchSize


class Short(Strict):
    """Short trainings before the whole ones, each decayed to its own end: all variants at all rates."""

    share: float = Field(ge=LEAST_SHARE, lt=1, description="of the images")
    seeds: tuple[Seed, ...] = Field(min_length=1)


class Whole(Strict):
    """Whole trainings of the variants that go on."""

    keep: PositiveInt | None = Field(description="variants besides the control; null: all, as without short trainings")
    seeds: tuple[Seed, ...] = Field(min_length=1)
    lower_rate: bool = Field(
        default=False, description="train each variant at the next lower rate too: best rates fall with the length"
    )


class Finals(Strict):
    """Further whole trainings of few variants."""

    keep: PositiveInt = Field(description="variants besides the control")
    seeds: tuple[Seed, ...] = Field(min_length=1)


class Fresh(Strict):
    """Trainings of winner and control on fresh seeds: the claim goes by these alone."""

    seeds: tuple[Seed, ...] = Field(min_length=2, description="of the first look")
    further: tuple[Seed, ...] = Field(default=(), description="added for a second look where the first is undecided")


class Race(Strict):
    """Variants race from fresh weights; every rung holds fewer of them."""

    recipe: Recipe = Field(description="what variants change; its images are those of a whole training")
    control: Name = Field(description="the variant that the winner is compared with")
    arms: dict[Name, Arm] = Field(min_length=2)
    rates: tuple[PositiveFloat, ...] = Field(min_length=1, description="factors of each variant's own learning rate")
    endpoint: dict[Literal["fid"], PositiveFloat] = Field(
        min_length=1, description="δ: the difference of ln(FID) below which two recipes are the same"
    )
    slots: MeasuredSlots | None = Field(
        default=None, description="for variants of density `slots`; null: there are none"
    )
    samplings: dict[Name, Sampling] = Field(
        min_length=1, description="the first one judges all rungs; then the best of them is chosen, without training"
    )
    short: Short | None = Field(description="null: whole trainings from the start")
    whole: Whole
    finals: Finals | None = None
    confirm: Fresh

    def recipe_of(self, arm: str) -> Recipe:
        """The recipe of a variant at its own learning rate."""
        return self.arms[arm].of(self.recipe)

    @property
    def over_slots(self) -> list[str]:
        """Variants that draw from slots of the control's profile."""
        return [name for name in self.arms if draws_from_slots(self.recipe_of(name))]

    @property
    def delta(self) -> float:
        """δ in ln(FID)."""
        return self.endpoint["fid"]

    def check_within(self, training: Training, schedule: NoiseSchedule, pretrained: str | None) -> None:
        """Raise ValueError where a race cannot be run with the other sections of its file."""
        timesteps = schedule.timesteps
        if pretrained is not None:
            raise ValueError(f"network.pretrained: '{pretrained}'; variants of a race begin with fresh weights: null")
        if self.short is not None and isinstance(training.average, ExponentialAverage):
            raise ValueError(f"training.average: {FIXED_HORIZON}")
        if self.slots is not None and self.slots.count > timesteps:
            raise ValueError(f"race.slots.count: {self.slots.count}; at most schedule.timesteps, {timesteps}")
        for name, one in self.samplings.items():
            if (one.steps if isinstance(one.steps, int) else one.steps[0] + 1) > timesteps:
                raise ValueError(f"race.samplings.{name}.steps: beyond schedule.timesteps, {timesteps}")
            if one.spacing in BY_PROFILE or one.guidance is not None or one.variance == "learned":
                raise ValueError(
                    f"race.samplings.{name}: allowed: a spacing without a profile, no guidance, and no learned variance"
                )

        images = round((self.short.share if self.short else 1) * self.recipe.images)
        for name, arm in self.arms.items():
            try:
                if arm.experts is not None:
                    arm.experts.check(images, training.batch_size, schedule)
            except (UserError, ValueError) as error:
                raise ValueError(f"race.arms.{name}.experts: {error}") from None

    @model_validator(mode="after")
    def seeds_and_control_fit(self) -> Self:
        """The control is trained too, no block is trained twice, and whole trainings show their scatter."""
        if self.control not in self.arms:
            raise ValueError(f"control: '{self.control}' is no variant; there is: {', '.join(self.arms)}")
        whole = (*self.whole.seeds, *(self.finals.seeds if self.finals else ()))
        seeds = (*(self.short.seeds if self.short else ()), *whole, *self.confirm.seeds, *self.confirm.further)
        if twice := [seed for seed in dict.fromkeys(seeds) if seeds.count(seed) > 1]:
            raise ValueError(f"seeds: {twice[0]} stands twice; every block of a race has a seed of its own")
        if len(whole) < LEAST_BLOCKS:
            raise ValueError(
                f"whole.seeds: {list(self.whole.seeds)}; whole and finals need {LEAST_BLOCKS} seeds or more, or the "
                "scatter of trainings is not known"
            )
        if len(set(self.rates)) < len(self.rates):
            raise ValueError(f"rates: {list(self.rates)} names one twice")
        return self

    @model_validator(mode="after")
    def rungs_narrow(self) -> Self:
        """A rung holds no more variants than the one before."""
        others = len(self.arms) - 1
        if self.short is None and self.whole.keep is not None:
            raise ValueError(f"whole.keep: {self.whole.keep} without short trainings that could choose; allowed: null")
        if self.short is None and self.whole.lower_rate:
            raise ValueError("whole.lower_rate: true without short trainings; all rates are trained anyway: false")
        seated = others if self.whole.keep is None else self.whole.keep
        if seated > others:
            raise ValueError(f"whole.keep: {seated} variants besides the control; there are {others}")
        if self.finals is not None and self.finals.keep > seated:
            raise ValueError(
                f"finals.keep: {self.finals.keep} variants besides the control; whole trainings keep {seated}"
            )
        return self

    @model_validator(mode="after")
    def arms_are_recipes(self) -> Self:
        """Variants fit together, see equally many images, and end their trainings."""
        for name in self.arms:
            try:
                recipe = self.recipe_of(name)
            except ValueError as error:
                raise ValueError(f"arms.{name}: {first_reason(error)}") from None
            self.check_arm(name, recipe)
        return self

    def check_arm(self, name: str, recipe: Recipe) -> None:
        """Raise ValueError where a variant cannot be compared with the others."""
        if recipe.images != self.recipe.images:
            raise ValueError(
                f"arms.{name}.images: {recipe.images}; allowed: {self.recipe.images}, since variants see equally many"
            )
        if recipe.prediction == "mixed" or not recipe.sampler.for_all:
            raise ValueError(f"arms.{name}: allowed: one head, all timesteps")
        if draws_from_slots(recipe):
            if name == self.control or self.slots is None:
                raise ValueError(
                    f"arms.{name}.sampler: density 'slots' needs the control's slots; allowed: race.slots, and another "
                    "control"
                )
        elif recipe.sampler.needs:
            raise ValueError(
                f"arms.{name}.sampler: density '{recipe.sampler.density}' needs a profile, and fresh weights have none"
            )
        arm = self.arms[name]
        if arm.experts is not None and (name == self.control or arm.batch_size is not None or draws_from_slots(recipe)):
            raise ValueError(
                f"arms.{name}.experts: of the control, with a batch_size of their own, or after slots of the control; "
                "allowed: none of these"
            )
        if recipe.optimizer.decay == "constant":
            raise ValueError(
                f"arms.{name}.optimizer.decay: 'constant'; a race judges trainings that have ended: cosine or linear"
            )
        if self.short is None:
            return
        if arm.batch_size is not None:
            raise ValueError(
                f"arms.{name}.batch_size: {arm.batch_size}; learning curves of unequal batches cross, so "
                "short trainings mislead; allowed with race.short: null"
            )
        if isinstance(recipe.average, ExponentialAverage):
            raise ValueError(f"arms.{name}.average: {FIXED_HORIZON}")
        if self.short.share * recipe.images < recipe.optimizer.warmup_images:
            raise ValueError(
                f"short.share: {self.short.share:g} of {recipe.images} images is shorter than the warm-up of "
                f"arms.{name}, {recipe.optimizer.warmup_images} images"
            )


def draws_from_slots(recipe: Recipe) -> bool:
    """Say whether a recipe draws from slots that have to be measured, and needs nothing else."""
    return isinstance(recipe.sampler, OverSlots) and recipe.sampler.needs == ("slots",)


def with_slots(recipe: Recipe, slots: Partition) -> Recipe:
    """A recipe that draws from these slots."""
    return recipe.model_copy(update={"sampler": recipe.sampler.model_copy(update={"ranges": slots})})


#: Refusal of an average that hides what a short training has learned.
FIXED_HORIZON = (
    "exponential, of a fixed horizon, which hides what a short training has learned; allowed with race.short: power"
)


def first_reason(error: Any) -> str:
    """The first complaint of a validation."""
    first: dict[str, Any] = error.errors()[0] if hasattr(error, "errors") else {"msg": str(error), "loc": ()}
    place = ".".join(map(str, first["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
