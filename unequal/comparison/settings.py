"""`comparison`: variants trained in blocks and compared; `pilot`: short trainings that estimate what is detectable."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, PositiveFloat, TypeAdapter, WithJsonSchema, model_validator

from unequal.randomness import torch_seed
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe, WarmStart
from unequal.settings.strict import Strict
from unequal.settings.training import Average
from unequal.settings.values import BatchSize, Name, Seed

#: Endpoints of a training, of which lower is better: means of the loss of held-out images, and FID.
Endpoint = Literal["loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr", "fid"]
#: Least number of blocks: fewer do not show how trainings scatter.
LEAST = 2
#: Bins of timesteps, on a log scale, over which a curve is reported.
BINS = 40
R = TypeVar("R", bound=Recipe)


class Contrast(Strict):
    """An arm and its control."""

    arm: Name
    control: Name
    test: Literal["pooled", "paired", "welch"] = Field(
        default="pooled",
        description="by the variance of all pooled variants within blocks; where a variant scatters otherwise, by "
        "another optimizer or batch, say: by the two variants' own within blocks, or by Welch's, without blocks",
    )

    @property
    def arms(self) -> tuple[str, str]:
        """Names of the variant and its control."""
        return self.arm, self.control


class Speed(Strict):
    """Arms are also compared by the images that they take for the same FID, or loss, along their snapshots."""

    baseline: Name = Field(description="the variant whose training of the same block says how many images it takes")
    by: tuple[Endpoint, ...] = Field(default=("fid",), min_length=1, description="what has to be the same")
    delta: PositiveFloat = Field(description="δ of the logarithm of those images")


def images_for(endpoint: str) -> str:
    """Name of the endpoint "images for an equal value of `endpoint`", as a multiple of the baseline's images.

    Its value is 1/c for a variant that trains c times as fast.
    """
    return f"images_for_{endpoint}"


def names(arms: object) -> object:
    """Names in a list, or the keys of a mapping, in order."""
    return tuple(arms) if isinstance(arms, dict | list) else arms


NAME = TypeAdapter(Name).json_schema()
#: A list of variants, or a mapping whose keys are variants, so that every entry of the mapping is one.
ArmList = Annotated[
    tuple[Name, ...],
    BeforeValidator(names),
    WithJsonSchema({"anyOf": [{"type": "array", "items": NAME}, {"type": "object", "propertyNames": NAME}]}),
]
#: Name for all variants that are not listed.
OTHERS = "others"


class PilotArms(Strict):
    """Arms of the pilot, by how they are trained."""

    fresh: ArmList = Field(description="recipes, trained from the fresh weights of a block")
    continued: ArmList = Field(description="plans of experts, which continue the base of a block")

    @property
    def all(self) -> tuple[str, ...]:
        """All variants of the pilot."""
        return (*self.fresh, *self.continued)

    @model_validator(mode="after")
    def arms_differ(self) -> Self:
        """Check that names differ, since a variant and a block name a training."""
        refuse_twice("arms", self.all)
        return self


class Arms(PilotArms):
    """Arms by how they are trained; the matrices of the graph are made of these lists."""

    bases: tuple[Literal["base"], ...] = Field(max_length=1, description="[base] where plans continue it, else []")
    heads: ArmList = Field(description="recipes of three heads (prediction: mixed), from fresh weights")

    @property
    def from_fresh_weights(self) -> tuple[str, ...]:
        """Variants that are recipes."""
        return (*self.fresh, *self.heads)

    @property
    def all(self) -> tuple[str, ...]:
        """All variants."""
        return (*self.fresh, *self.heads, *self.continued)

    @model_validator(mode="after")
    def plans_have_a_base(self) -> Self:
        """Check that bases are trained exactly where variants continue them."""
        if bool(self.continued) != bool(self.bases):
            allowed = ["base"] if self.continued else []
            raise ValueError(f"bases: {list(self.bases)}; allowed with these plans: {allowed}")
        return self


class Confirm(Strict):
    """Train the arm that came first once more with its control, in blocks that had no say in that."""

    seeds: tuple[Seed, ...] = Field(description="of blocks of their own; []: nothing is confirmed")
    by: Endpoint | None = Field(default=None, description="the endpoint that ranks; null: the first of `endpoints`")
    among: tuple[Name, ...] = Field(
        default=(), description="variants that may come first; []: all but control and A/A variant"
    )


class Comparison(Strict):
    """Every arm is trained once in every block; what is compared, and what counts as the same, is settled before."""

    question: str = Field(min_length=1, description="heading of the page")
    subject: str = Field(min_length=1, description="what people call the images")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="of the blocks")
    arms: Arms
    batch_sizes: dict[Name, BatchSize] = Field(
        description="variant → images an optimizer step, where it differs from `training`; averages and betas follow"
    )
    control: Name | None = Field(
        default=None,
        description="every other variant but the A/A one is compared with it; null: `comparisons` says which",
    )
    comparisons: tuple[Contrast, ...] = Field(
        default=(), description="comparisons that are judged, a family an endpoint; none where a control is named"
    )
    repeated: Contrast = Field(description="the A/A variant, a control once more with other draws, and that control")
    endpoints: dict[Endpoint, PositiveFloat] = Field(
        min_length=1, description="endpoint → δ: the difference of its logarithm below which two variants are the same"
    )
    effects: dict[Name, PositiveFloat] = Field(
        default={},
        description="endpoint → the claimed difference of its logarithm: half of it must be detectable, or smaller "
        "differences are not judged; without an entry, δ must be",
    )
    speed: Speed | None = Field(default=None, description="null: only the ends of trainings are compared")
    confirm: Confirm

    @property
    def compared(self) -> tuple[Contrast, ...]:
        """Judged comparisons: those that are listed, or every variant with the one control."""
        if self.control is None:
            return self.comparisons
        others = (arm for arm in self.arms.all if arm not in (self.control, self.repeated.arm))
        return tuple(Contrast(arm=arm, control=self.control) for arm in others)

    @property
    def judged(self) -> dict[str, float]:
        """Judged endpoint → δ: the endpoints, and with `speed` the images for equal figures."""
        speeds = {images_for(one): self.speed.delta for one in self.speed.by} if self.speed else {}
        return {**self.endpoints} | speeds

    @property
    def pooled_arms(self) -> tuple[str, ...]:
        """Variants that share a variance, in order."""
        pooled = {arm for one in (*self.compared, self.repeated) if one.test == "pooled" for arm in one.arms}
        return tuple(arm for arm in self.arms.all if arm in pooled)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Variants that can rank first and be confirmed."""
        return self.confirm.among or tuple(arm for arm in self.arms.all if arm not in self.repeated.arms)

    def needed(self, endpoint: str) -> float:
        """Difference in ln(endpoint) that must be detectable."""
        return self.effects[endpoint] / 2 if endpoint in self.effects else self.judged[endpoint]

    @model_validator(mode="after")
    def blocks_are_several(self) -> Self:
        """Check that there are several blocks, which show how trainings scatter, and that none repeats."""
        refuse_twice("seeds", self.seeds)
        refuse_twice("confirm.seeds", self.confirm.seeds)
        if len(self.seeds) < LEAST:
            raise ValueError(f"seeds: {list(self.seeds)}; allowed: {LEAST} or more blocks")
        if len(self.confirm.seeds) == 1:
            raise ValueError(f"confirm.seeds: {list(self.confirm.seeds)}; allowed: none, or {LEAST} or more")
        if shared := [seed for seed in self.confirm.seeds if seed in self.seeds]:
            raise ValueError(f"confirm.seeds: {shared[0]} is a judged block; allowed: others")
        if len(self.arms.all) < LEAST:
            raise ValueError(f"arms: {list(self.arms.all)}; allowed: {LEAST} or more")
        return self

    @model_validator(mode="after")
    def comparisons_are_of_arms(self) -> Self:
        """Check that each comparison appears once and has two trained variants, and that every variant is compared."""
        if (self.control is None) == (not self.comparisons):
            raise ValueError("comparisons: name some, or a control of all variants, and not both")
        planned = [one.arms for one in (*self.compared, self.repeated)]
        for arm, control in planned:
            if arm == control:
                raise ValueError(f"comparisons: '{arm}' is compared with itself; allowed: another variant")
        self.require_arms("comparisons", [arm for arms in planned for arm in arms])
        refuse_twice("comparisons", [" against ".join(arms) for arms in planned])
        named = {arm for arms in planned for arm in arms}
        if idle := [arm for arm in self.arms.all if arm not in named]:
            raise ValueError(f"arms: '{idle[0]}' is in no comparison; name it in one or delete it")
        return self

    @model_validator(mode="after")
    def names_are_known(self) -> Self:
        """Check that sections name existing variants and endpoints."""
        speed, by = self.speed, self.confirm.by
        self.require_arms("speed.baseline", [speed.baseline] if speed else [])
        self.require_arms("confirm.among", self.confirm.among)
        self.require_arms("batch_sizes", self.batch_sizes)
        for field, given, allowed in (
            ("speed.by", speed.by if speed else (), self.endpoints),
            ("confirm.by", (by,) if by else (), self.endpoints),
            ("effects", self.effects, self.judged),
        ):
            if unknown := [one for one in given if one not in allowed]:
                raise ValueError(f"{field}: '{unknown[0]}' is not judged; there is: {', '.join(allowed)}")
        return self

    def require_arms(self, field: str, names: Iterable[str]) -> None:
        """Raise ValueError where a field names something that is not a variant."""
        if unknown := [name for name in names if name not in self.arms.all]:
            raise ValueError(f"{field}: '{unknown[0]}' is no variant; there is: {', '.join(self.arms.all)}")


class Try(Strict):
    """A change of an arm's own recipe, to see whether the arm ends better."""

    lr: PositiveFloat | None = Field(default=None, description="learning rate; null: the recipe's")
    warm_start: WarmStart | None = Field(
        default=None, description="what the variant resumes from its base; null: as its recipe says"
    )
    average: Average | None = Field(default=None, description="of the variant's weights; null: as its recipe says")


#: A try that changes nothing.
AS_IT_IS = Try()


class Pilot(Strict):
    """Short trainings on seeds of their own: how trainings scatter, what a doubling brings, and which try suits an arm.

    Every arm has the same tries, each of them from each of the seeds.
    """

    arms: PilotArms = Field(description="some variants of the comparison")
    tries: dict[Name, Try] = Field(min_length=1, description="name → a change that every variant is tried with")
    seeds: tuple[Seed, ...] = Field(min_length=2, description="blocks of the pilot, none of the comparison's")
    share: float = Field(gt=0, le=1, description="share of the images that the comparison gives each training")
    chosen: dict[Name, Name] = Field(
        description=f"variant, or `{OTHERS}` for those that are not named → the try that it is trained by; {{}} until "
        "the pilot has run"
    )

    def tried(self, arm: str) -> Try:
        """Try that was chosen for a variant."""
        name = choice(self.chosen, arm)
        return AS_IT_IS if name is None else self.tries[name]

    @model_validator(mode="after")
    def chosen_tries_exist(self) -> Self:
        """Check that every choice names a try."""
        for arm, name in self.chosen.items():
            if name not in self.tries:
                raise ValueError(f"chosen.{arm}: '{name}' is no try; there is: {', '.join(self.tries)}")
        return self

    @model_validator(mode="after")
    def scatter_can_be_measured(self) -> Self:
        """Check that a block has at least two trainings."""
        refuse_twice("seeds", self.seeds)
        if len(self.arms.all) * len(self.tries) < 2:
            raise ValueError(
                "arms: one variant with one try has no scatter within blocks; allowed: two variants, or two tries"
            )
        return self

    def check(self, comparison: Comparison) -> None:
        """Raise ValueError where the pilot has a variant that the comparison lacks, or shares a seed with it."""
        arms = comparison.arms
        for field, names, allowed in (
            ("arms.fresh", self.arms.fresh, arms.from_fresh_weights),
            ("arms.continued", self.arms.continued, arms.continued),
            ("chosen", self.chosen, (*arms.all, OTHERS)),
        ):
            if unknown := [name for name in names if name not in allowed]:
                raise ValueError(f"pilot.{field}: '{unknown[0]}' is no such variant; there is: {', '.join(allowed)}")
        if shared := [one for one in self.seeds if one in (*comparison.seeds, *comparison.confirm.seeds)]:
            raise ValueError(f"pilot.seeds: {shared[0]} is a block of the comparison; allowed: others")


def choice(chosen: Mapping[str, str], arm: str) -> str | None:
    """Name of the try that was chosen for a variant; None: no choice was made."""
    return chosen.get(arm, chosen.get(OTHERS))


def refuse_twice(axis: str, values: Sequence[object]) -> None:
    """Raise ValueError where a value repeats."""
    if len(set(values)) < len(values):
        raise ValueError(f"{axis}: {list(values)} names one twice")


def arm_seed(block: int, arm: str) -> int:
    """Seed of a variant's own draws within a block, so that two variants of equal settings are two trainings."""
    return torch_seed(block, *arm.encode())


def shortened(recipe: R, share: float, tried: Try = AS_IT_IS) -> R:
    """Shorten a recipe to a share of its images, warm-up, snapshots and curriculum included, and apply a try."""
    settings = recipe.optimizer
    optimizer = settings.model_copy(
        update={"lr": tried.lr or settings.lr, "warmup_images": round(share * settings.warmup_images)}
    )
    images, snapshots = round(share * recipe.images), tuple(round(share * one) for one in recipe.snapshots)
    return recipe.model_copy(
        update={
            "images": images,
            "snapshots": snapshots,
            "sampler": recipe.sampler.shortened(share),
            "optimizer": optimizer,
            "warm_start": tried.warm_start or recipe.warm_start,
            "average": tried.average or recipe.average,
        }
    )


def shortened_plan(plan: Plan, share: float, tried: Try) -> Plan:
    """Shorten a plan, and the base that it continues, to a share of their images, and apply a try to its recipe.

    With a share of 1, the result is the plan by which a variant of the study is trained.
    """
    start = None if plan.from_images is None else round(share * plan.from_images)
    return plan.model_copy(update={"recipe": shortened(plan.recipe, share, tried), "from_images": start})
