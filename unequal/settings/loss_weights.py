"""`loss_weight`: how the losses of different timesteps are weighted; each kind with its keys.

A function that makes a table over timesteps, a weight or a density, becomes a class of settings by `settings_of`.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from inspect import Parameter, signature
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import Field, PositiveInt, create_model
from torch import Tensor

from unequal.settings.strict import Strict
from unequal.settings.values import DrawCount
from unequal.timesteps.densities import Above, Between
from unequal.timesteps.weights import WEIGHTS, loss_weights

#: Ranges of timesteps, equal in log-SNR, in which losses are averaged, where the settings say nothing else.
BINS = 40

M = TypeVar("M", bound=Strict)


def settings_of(function: Callable[..., Any], base: type[M], key: str = "kind") -> type[M]:
    """A kind of settings, named as a function is, with the function's keywords, their types, bounds and defaults.

    Args:
        function: with one argument that is computed on, and keywords.
        base: class of the settings.
        key: its field that holds the name.
    """
    name = function.__name__
    keys = {
        keyword: (checked(one.annotation), ... if one.default is Parameter.empty else one.default)
        for keyword, one in signature(function).parameters.items()
        if one.kind is Parameter.KEYWORD_ONLY
    }
    fields: dict[str, Any] = {key: (Literal[name], ...)} | keys  # type: ignore[not-a-type]
    title = "".join(part.capitalize() for part in name.split("_"))
    return create_model(title, __base__=base, __module__=base.__module__, __doc__=function.__doc__, **fields)


def checked(annotation: Any) -> Any:
    """A keyword's annotation with its bounds as those of a field."""
    match get_args(annotation):
        case (kind, Above(bound)):
            return Annotated[kind, Field(gt=bound)]
        case (kind, Between(lowest, highest)):
            return Annotated[kind, Field(ge=lowest, le=highest)]
    return annotation


def one_of(kinds: Sequence[type[Strict]], key: str = "kind") -> Any:
    """The type of settings of one of several kinds, which a key distinguishes."""
    return Annotated[reduce(or_, kinds), Field(discriminator=key)]  # type: ignore[invalid-annotation]


def keywords(settings: Strict, function: Callable[..., Any]) -> dict[str, Any]:
    """Values of a function's keywords in settings made by `settings_of`."""
    return {key: getattr(settings, key) for key in signature(function).parameters if key in type(settings).model_fields}


class LossWeight(Strict):
    """A weight of any kind."""

    kind: str
    #: Whether it is known before the training, and the same throughout.
    fixed: ClassVar[bool] = False

    def check(self, sampler: str, three_heads: bool) -> None:
        """Raise ValueError where it does not fit a density of the sampler, or three heads."""

    def table(self, prediction: str, snr: Tensor) -> Tensor:
        """Factor of a squared error of the prediction at each timestep, as far as it is fixed, [T].

        Args:
            prediction: of the network, or of one of its heads.
            snr: [T], linear.
        """
        return loss_weights("none", prediction, snr)


class NoWeight(LossWeight):
    """The plain squared error of the prediction."""

    kind: Literal["none"]
    fixed: ClassVar[bool] = True


class FormulaWeight(LossWeight):
    """A weight of `unequal.timesteps.weights.WEIGHTS`."""

    fixed: ClassVar[bool] = True

    def table(self, prediction: str, snr: Tensor) -> Tensor:
        return loss_weights(self.kind, prediction, snr, **keywords(self, WEIGHTS[self.kind]))


class Learned(LossWeight):
    """A weight by the losses of one head, as they come."""

    def check(self, sampler: str, three_heads: bool) -> None:
        if three_heads:
            raise ValueError(
                f"loss_weight.kind: '{self.kind}' is for one head; allowed for three: mixing.train 'balanced', "
                "which divides each head's loss by its running mean"
            )


class RunningMean(Learned):
    """Each loss over the running mean of losses at such timesteps."""

    kind: Literal["running_mean"]
    half_life_images: PositiveInt = Field(description="images after which a loss counts half")
    bins: DrawCount = Field(default=BINS, description="ranges of timesteps, equal in log-SNR, that have a mean")


class Uncertain(Learned):
    """The loss over an uncertainty that is learned with the network."""

    def check(self, sampler: str, three_heads: bool) -> None:
        super().check(sampler, three_heads)
        if sampler == "loss_second_moment":
            raise ValueError(
                f"loss_weight.kind: '{self.kind}' takes the size of losses away, from which sampler.density "
                "'loss_second_moment' learns; allowed with it: any other sampler"
            )


class LearnedUncertainty(Uncertain):
    """EDM2's (2312.02696, eq. 14): w·‖Δ‖²/e^u + u, where u, a function of the noise, is learned with the network."""

    kind: Literal["learned_uncertainty"]


KINDS: tuple[type[LossWeight], ...] = (
    NoWeight,
    *(settings_of(one, FormulaWeight) for one in WEIGHTS.values()),
    RunningMean,
    LearnedUncertainty,
)

#: How losses are weighted: each kind with its own keys.
if TYPE_CHECKING:
    AnyLossWeight = LossWeight
else:
    AnyLossWeight = one_of(KINDS)
