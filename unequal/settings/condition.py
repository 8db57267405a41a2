"""`network.condition`: what a network gets besides a noisy image and its timestep; see `unequal.models.conditions`."""

from typing import Annotated, Literal

from pydantic import Field

from unequal.settings.strict import Strict
from unequal.settings.values import Width

#: Classes of the labels.
Classes = Annotated[Width, Field(description="as many as the data's labels have")]
Factor = Annotated[int, Field(ge=2, description="pixels of the image for one of its low-resolution form, a side")]
Residual = Annotated[
    bool,
    Field(
        exclude_if=lambda residual: not residual,  # what was recorded before there was a choice stays as it is
        description="the network is trained on the difference between the image and its enlarged low-resolution form",
    ),
]


class Unconditional(Strict):
    """Nothing: images out of noise alone."""

    kind: Literal["none"] = "none"


class ClassLabels(Strict):
    """The image's class."""

    kind: Literal["labels"] = "labels"
    classes: Classes


class DroppedLabels(Strict):
    """The image's class, withheld from some in training: the network also learns to answer without, for guidance."""

    kind: Literal["dropped_labels"] = "dropped_labels"
    classes: Classes
    dropout: float = Field(gt=0, lt=1, description="share of a batch's images whose label is withheld; DiT: 0.1")


class LowResolution(Strict):
    """The image at a factor-th of its resolution, enlarged again."""

    kind: Literal["low_resolution"] = "low_resolution"
    super_resolution_factor: Factor
    residual: Residual = False


class LabelledLowResolution(Strict):
    """The image at low resolution and its class: guided-diffusion's upsamplers (2105.05233)."""

    kind: Literal["labelled_low_resolution"] = "labelled_low_resolution"
    super_resolution_factor: Factor
    residual: Residual = False
    classes: Classes


#: Chosen by its `kind`.
AnyCondition = Annotated[
    Unconditional | ClassLabels | DroppedLabels | LowResolution | LabelledLowResolution, Field(discriminator="kind")
]
