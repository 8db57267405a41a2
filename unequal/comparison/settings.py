"""`blocks`: arms that are trained in blocks and compared; `pilot`: short trainings that tell what the study can see."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self, TypeVar, get_args

from pydantic import BeforeValidator, Field, PositiveFloat, TypeAdapter, WithJsonSchema, model_validator

from unequal.randomness import torch_seed
from unequal.settings.groups import Plan
from unequal.settings.profile import Profile
from unequal.settings.recipe import Recipe, WarmStart
from unequal.settings.strict import Strict
from unequal.settings.training import Average
from unequal.settings.values import Name, Seed

#: What a training is judged by, less being better: means of the loss of held-out images, and FID.
Endpoint = Literal["loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr", "fid"]
#: Comparison without which nothing is known of the scatter of trainings.
LEAST = 2
#: Bins of timesteps, on a log scale, over which a curve is told.
BINS = 40
ENDPOINTS: tuple[Endpoint, ...] = get_args(Endpoint)
R = TypeVar("R", bound=Recipe)


#: Whose scatter bounds what is said.
Scatter = Literal["pilot", "blocks"]


#: `subject` in params.yaml.
Subject = Annotated[str, Field(min_length=1, description="what people call the images, as pages begin with it")]
#: `effects` in params.yaml.
Effects = Annotated[
    dict[Name, PositiveFloat],
    Field(
        description="what the claim is that the study asks about, as a difference of an endpoint's logarithm: half of "
        "it must be visible, or nothing is said of smaller differences than are; of an endpoint without one, δ must be"
    ),
]


class Contrast(Strict):
    """An arm and what it is held against."""

    arm: Name
    control: Name
    test: Literal["pooled", "paired", "welch"] = Field(
        default="pooled",
        description="by the variance of all pooled arms within blocks; where an arm scatters otherwise, by another "
        "optimizer or batch, say: by the two arms' own within blocks, or by Welch's, without blocks",
    )

    @property
    def arms(self) -> tuple[str, str]:
        """The two."""
        return self.arm, self.control


class Speed(Strict):
    """Arms are also compared by the images that they take for the same FID, or loss, along their snapshots."""

    baseline: Name = Field(description="the arm whose training of the same block tells how many images it takes")
    by: tuple[Endpoint, ...] = Field(default=("fid",), min_length=1, description="what has to be the same")
    delta: PositiveFloat = Field(description="δ of the logarithm of those images")


def images_for(endpoint: str) -> str:
    """The endpoint of what an arm takes for the same of another one, as a multiple of the baseline's.

    It is 1/c where the arm is c times as fast.
    """
    return f"images_for_{endpoint}"


def names(arms: object) -> object:
    """Those of a list, or of a mapping, as of all recipes or plans, in its order."""
    return tuple(arms) if isinstance(arms, dict | list) else arms


NAME = TypeAdapter(Name).json_schema()
#: Of arms: a list, or the mapping that they stand in, so that whatever is entered there is an arm.
Arms = Annotated[
    tuple[Name, ...],
    BeforeValidator(names),
    WithJsonSchema({"anyOf": [{"type": "array", "items": NAME}, {"type": "object", "propertyNames": NAME}]}),
]
#: In the place of an arm's name: what all arms go by that are not named.
OTHERS = "others"


class Comparison(Strict):
    """Every arm is trained once in every block; what is compared, and what counts as the same, is settled before."""

    question: str = Field(min_length=1, description="of the study, the heading of its page")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="of blocks that are trained here: of bases, say")
    earlier: tuple[Seed, ...] = Field(
        default=(), description="of blocks whose endpoints are in results already: judged, but not trained again"
    )
    arms: Arms = Field(
        min_length=2, description="each a plan or a recipe of that name; an alias of `recipes` or `plans`: all of them"
    )
    control: Name | None = Field(
        default=None, description="every other arm but the A/A one is compared with it; null: `comparisons` says which"
    )
    comparisons: tuple[Contrast, ...] = Field(
        default=(), description="those that have words, a family an endpoint; where a control is named: none here"
    )
    repeated: Contrast = Field(description="the A/A arm, a control once more with other draws, and that control")
    endpoints: dict[Endpoint, PositiveFloat] = Field(
        min_length=1, description="what is judged → δ: the difference of its logarithm below which two arms are alike"
    )
    speed: Speed | None = Field(default=None, description="null: only the ends of trainings are compared")
    scatter: Scatter = Field(
        default="pilot",
        description="by whose scatter it is told what the study can see: the pilot's, known beforehand, or the "
        "blocks' own, where a pilot's trainings are too short to scatter as these do",
    )

    @property
    def compared(self) -> tuple[Contrast, ...]:
        """The comparisons that have words: those that are listed, or every arm with the one control."""
        if self.control is None:
            return self.comparisons
        others = (arm for arm in self.arms if arm not in (self.control, self.repeated.arm))
        return tuple(Contrast(arm=arm, control=self.control) for arm in others)

    @property
    def judged(self) -> dict[str, float]:
        """What is judged → δ: the endpoints, and the images for the same of some where they are asked for."""
        speeds = {images_for(one): self.speed.delta for one in self.speed.by} if self.speed else {}
        return {**self.endpoints} | speeds

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Of all blocks that are judged."""
        return (*self.earlier, *self.seeds)

    @property
    def pooled_arms(self) -> tuple[str, ...]:
        """Arms that share a variance, in their order."""
        pooled = {arm for one in (*self.compared, self.repeated) if one.test == "pooled" for arm in one.arms}
        return tuple(arm for arm in self.arms if arm in pooled)

    @model_validator(mode="after")
    def nothing_is_trained_twice(self) -> Self:
        """An arm and a block name a training."""
        for axis, values in (("seeds", self.all_seeds), ("arms", self.arms)):
            refuse_twice(axis, values)
        return self

    @model_validator(mode="after")
    def blocks_are_several(self) -> Self:
        """One tells nothing of the scatter of trainings."""
        if len(self.all_seeds) < LEAST:
            raise ValueError(f"seeds: {list(self.all_seeds)}, with earlier ones; allowed: {LEAST} or more blocks")
        return self

    @model_validator(mode="after")
    def comparisons_are_of_arms(self) -> Self:
        """Each once, of two arms that are trained; and none is trained for nothing."""
        if (self.control is None) == (not self.comparisons):
            raise ValueError("comparisons: name some, or a control of all arms, and not both")
        planned = [one.arms for one in (*self.compared, self.repeated)]
        for arms in planned:
            if unknown := [arm for arm in arms if arm not in self.arms]:
                raise ValueError(f"comparisons: '{unknown[0]}' is no arm; there is: {', '.join(self.arms)}")
            if arms[0] == arms[1]:
                raise ValueError(f"comparisons: '{arms[0]}' is held against itself; allowed: another arm")
        refuse_twice("comparisons", [" against ".join(arms) for arms in planned])
        if self.speed and self.speed.baseline not in self.arms:
            raise ValueError(f"speed.baseline: '{self.speed.baseline}' is no arm; there is: {', '.join(self.arms)}")
        if other := [one for one in self.speed.by if one not in self.endpoints] if self.speed else []:
            raise ValueError(f"speed.by: '{other[0]}' is not judged; there is: {', '.join(self.endpoints)}")
        named = {arm for arms in planned for arm in arms}
        if idle := [arm for arm in self.arms if arm not in named]:
            raise ValueError(f"arms: '{idle[0]}' is in no comparison; name it in one or delete it")
        return self


class BlockProfile(Profile):
    """How the losses of a training are measured, and how finely they are kept."""

    curve: Literal["bins", "timesteps"] = Field(
        default="bins",
        description=f"losses are kept as means of {BINS} bins of timesteps on a log scale, or of every timestep: then "
        "experts are set beside the joint model inside the very borders of their groups",
    )


class Try(Strict):
    """A change of an arm's own recipe, to see whether the arm ends better."""

    lr: PositiveFloat | None = Field(default=None, description="learning rate; null: the recipe's")
    warm_start: WarmStart | None = Field(
        default=None, description="with what the arm goes on from its base; null: as its recipe says"
    )
    average: Average | None = Field(default=None, description="of the arm's weights; null: as its recipe says")


#: Nothing is changed.
AS_IT_IS = Try()


class Pilot(Strict):
    """Short trainings on seeds of their own: how trainings scatter, what doubling brings, and what an arm likes.

    Every arm has the same tries, each of them from each of the seeds.
    """

    arms: tuple[Name, ...] = Field(min_length=1, description="some of those in `blocks`")
    tries: dict[Name, Try] = Field(min_length=1, description="of every arm, each under a name")
    seeds: tuple[Seed, ...] = Field(min_length=2, description="none of those in `blocks`")
    share: float = Field(gt=0, le=1, description="of the images that the study gives each training")
    chosen: dict[Name, Name] = Field(
        default={},
        description=f"arm of the study, or `{OTHERS}` for those that are not named → the try that it is trained by; an "
        "arm without one is as its settings say",
    )

    @property
    def cells(self) -> tuple[tuple[str, str], ...]:
        """An arm and a try, as they are trained from every seed."""
        return tuple((arm, name) for arm in self.arms for name in self.tries)

    def tried(self, arm: str) -> Try:
        """What was chosen for an arm."""
        name = choice(self.chosen, arm)
        return AS_IT_IS if name is None else self.tries[name]

    @model_validator(mode="after")
    def what_is_chosen_was_tried(self) -> Self:
        """A choice names a try."""
        for arm, name in self.chosen.items():
            if name not in self.tries:
                raise ValueError(f"chosen.{arm}: '{name}' is no try; there is: {', '.join(self.tries)}")
        return self

    @model_validator(mode="after")
    def scatter_can_be_told(self) -> Self:
        """Two trainings a block, and nothing twice."""
        for axis in ("arms", "seeds"):
            refuse_twice(axis, getattr(self, axis))
        if len(self.cells) < 2:
            raise ValueError(
                "arms: one arm with one try tells no scatter within blocks; allowed: two arms, or two tries"
            )
        return self

    def check(self, blocks: Comparison) -> None:
        """Raise ValueError where the pilot is of other arms than the study, or on its very seeds."""
        if unknown := [arm for arm in self.arms if arm not in blocks.arms]:
            raise ValueError(f"pilot.arms: '{unknown[0]}' is no arm; there is: {', '.join(blocks.arms)}")
        if unknown := [arm for arm in self.chosen if arm not in (*blocks.arms, OTHERS)]:
            raise ValueError(f"pilot.chosen: '{unknown[0]}' is no arm; there is: {', '.join(blocks.arms)}")
        if shared := [seed for seed in self.seeds if seed in blocks.all_seeds]:
            raise ValueError(f"pilot.seeds: {shared[0]} is a block of the study; allowed: others")


class Confirmation(Strict):
    """What came first, whichever it is, and the control, each once more in blocks that had no say in that."""

    seeds: tuple[Seed, ...] = Field(min_length=2, description="of blocks of their own: in neither `blocks` nor `pilot`")

    def check(self, blocks: Comparison, pilot: Pilot) -> None:
        """Raise ValueError where a seed stands twice, or had a say in what came first."""
        refuse_twice("confirmation.seeds", self.seeds)
        for seed in self.seeds:
            if seed in (*blocks.all_seeds, *pilot.seeds):
                raise ValueError(f"confirmation.seeds: {seed} is a block of the study or of its pilot; allowed: others")


def choice(chosen: Mapping[str, str], arm: str) -> str | None:
    """The name of the try that was chosen for an arm; None where none was."""
    return chosen.get(arm, chosen.get(OTHERS))


def refuse_twice(axis: str, values: Sequence[object]) -> None:
    """Raise ValueError where a value stands twice."""
    if len(set(values)) < len(values):
        raise ValueError(f"{axis}: {list(values)} names one twice")


def arm_seed(block: int, arm: str) -> int:
    """The seed of an arm's own draws within a block: two arms of the same settings are two trainings."""
    return torch_seed(block, *arm.encode())


def shortened(recipe: R, share: float, tried: Try = AS_IT_IS) -> R:
    """A recipe for a share of its images, warm-up, snapshots and curriculum included, with what is tried of it."""
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
    """A plan for a share of its images, on a base that is shortened likewise, with what is tried of its recipe.

    For the whole of them, it is what an arm of the study is trained by.
    """
    start = None if plan.from_images is None else round(share * plan.from_images)
    return plan.model_copy(update={"recipe": shortened(plan.recipe, share, tried), "from_images": start})
