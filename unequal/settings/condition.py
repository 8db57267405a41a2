"""`network.condition`: what a network gets besides a noisy image and its timestep.

A condition is made from a batch and bound to a network, so that training, profiling, pruning and
sampling do it in one way. A further one is a class here and a line in `AnyCondition`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from unequal.diffusion.predictions import Answer, NetworkFunction
from unequal.errors import UserError
from unequal.randomness import Stream, uniform_of
from unequal.settings.strict import Strict
from unequal.settings.values import Width


class Condition(Strict, ABC):
    """A condition: a tensor with a row an image, or None where there is nothing."""

    kind: str
    #: What a network needs besides, in messages.
    needed: ClassVar[str] = ""
    #: Whether a sample takes the label of the image whose low-resolution form it begins with.
    takes_labels_of_images: ClassVar[bool] = False

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of a model with this condition in messages."""

    @property
    def embedded_classes(self) -> int | None:
        """For how many labels a network needs an embedding; None for none."""
        return None

    def input_channels(self, channels: int) -> int:
        """Channels of the first layer, for images of so many."""
        return channels

    @abstractmethod
    def of(self, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        """Condition of a batch; one made elsewhere is checked when it is bound.

        Args:
            images: [B, C, H, W] in the model's range, where they are known.
            labels: [B] int64, where there are any.
        """

    def of_samples(self, ids: Sequence[int], seed: int, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        """Condition of the images that are sampled from a seed under these numbers; see `of`.

        Raises:
            UserError: labels for a model that takes none.
        """
        if labels is not None:
            raise UserError(f"{self.title} takes no labels")
        return self.of(images, None)

    def check(self, condition: Tensor | None) -> None:
        """Raise UserError where a network gets a condition that it does not take, or lacks one that it needs."""
        if condition is None:
            raise UserError(f"{self.title} needs {self.needed}")

    @abstractmethod
    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        """The network with this condition of the images that it is called with."""

    def center(self, condition: Tensor | None) -> Tensor | None:
        """Images [B, C, H, W] whose difference from x0 is what is noised and predicted; None: x0 itself is."""
        return None

    def check_size(self, image_size: int) -> None:
        """Raise ValueError where images of that size have no such condition."""

    def check_labels(self, found: int | None) -> None:
        """Raise UserError where images of so many classes, None for unlabelled ones, have no such condition."""


class Unconditional(Condition):
    """Nothing: images out of noise alone."""

    kind: Literal["none"] = "none"
    title: ClassVar[str] = "an unconditional model"  # type: ignore[bad-override]

    def of(self, images: Tensor | None, labels: Tensor | None) -> None:
        return None

    def check(self, condition: Tensor | None) -> None:
        if condition is not None:
            raise UserError(f"{self.title} takes no low-resolution image and no labels")

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        return net


class ClassLabels(Condition):
    """The image's class, int64, which the network embeds."""

    kind: Literal["labels"] = "labels"
    classes: Width = Field(description="as many as the data's labels have")
    needed: ClassVar[str] = "labels"

    @property
    def title(self) -> str:
        return f"a model of {self.classes} classes"

    @property
    def embedded_classes(self) -> int:
        return self.classes

    def of(self, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        return labels

    def of_samples(self, ids: Sequence[int], seed: int, images: Tensor | None, labels: Tensor | None) -> Tensor:
        """The given labels, or uniform ones that are the same for every model. Raises UserError for other classes."""
        if labels is None:
            return (uniform_of(ids, seed, Stream.SAMPLE_LABELS) * self.classes).long()
        return known_labels(labels, self.classes, self.title)

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        return partial(net, class_labels=condition)

    def check_labels(self, found: int | None) -> None:
        check_classes(self.classes, found)


def known_labels(labels: Tensor, classes: int, title: str) -> Tensor:
    """The labels. Raises UserError where one is of no class of the model."""
    if labels.min() < 0 or labels.max() >= classes:
        raise UserError(f"labels {labels.min()} … {labels.max()}; {title} allows 0 … {classes - 1}")
    return labels


def check_classes(classes: int, found: int | None) -> None:
    """Raise UserError where data of so many classes, None for unlabelled ones, are not those of the settings."""
    if found != classes:
        has = "without labels" if found is None else f"of {found} classes"
        allowed = "none" if found is None else f"{found}, or kind none"
        raise UserError(f"network.condition.classes: {classes}; the data are {has}, allowed: {allowed}")


class DroppedLabels(ClassLabels):
    """The image's class, withheld from some in training, so that the network also learns to answer without: guidance.

    In place of a label stands one class more, the null class (2207.12598).
    """

    kind: Literal["dropped_labels"] = "dropped_labels"  # type: ignore[assignment]
    dropout: float = Field(gt=0, lt=1, description="share of a batch's images whose label is withheld; DiT: 0.1")

    @property
    def embedded_classes(self) -> int:
        return self.classes + 1

    @property
    def null(self) -> int:
        """The class index of no label."""
        return self.classes


class LowResolution(Condition):
    """The image at a factor-th of its resolution, enlarged again, which the network sees as further channels."""

    kind: Literal["low_resolution"] = "low_resolution"
    super_resolution_factor: int = Field(
        ge=2, description="pixels of the image for one of its low-resolution form, a side"
    )
    residual: bool = Field(
        default=False,
        exclude_if=lambda residual: not residual,  # what was recorded before there was a choice stays as it is
        description="the network is trained on the difference between the image and its enlarged low-resolution form",
    )
    needed: ClassVar[str] = "a low-resolution image"

    @property
    def title(self) -> str:
        return "a model of super-resolution"

    def input_channels(self, channels: int) -> int:
        """Two images side by side."""
        return 2 * channels

    def of(self, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        from unequal.diffusion.super_resolution import blurred  # needed by super-resolution alone

        return None if images is None else blurred(images, self.super_resolution_factor)

    def center(self, condition: Tensor | None) -> Tensor | None:
        return condition if self.residual else None

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        def seeing_both(sample: Tensor, timestep: Tensor) -> Answer:
            assert condition is not None
            return net(torch.cat([sample, condition.to(sample)], dim=1), timestep)

        return seeing_both

    def check_size(self, image_size: int) -> None:
        if image_size % self.super_resolution_factor:
            raise ValueError(
                f"network.condition.super_resolution_factor: {self.super_resolution_factor} does not divide "
                f"data.image_size {image_size}"
            )


class LabelledLowResolution(LowResolution):
    """The image at low resolution and its class: guided-diffusion's upsamplers (2105.05233).

    One tensor holds both: the enlarged image, and the class as a further channel of one value.
    """

    kind: Literal["labelled_low_resolution"] = "labelled_low_resolution"  # type: ignore[assignment]
    classes: Width = Field(description="as many as the data's labels have")
    needed: ClassVar[str] = "a low-resolution image and its label"
    takes_labels_of_images: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"a model of super-resolution with {self.classes} classes"

    @property
    def embedded_classes(self) -> int:
        return self.classes

    def of(self, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        enlarged = super().of(images, None)
        if enlarged is None or labels is None:
            return None
        plane = labels.to(enlarged).view(-1, 1, 1, 1).expand(-1, 1, *enlarged.shape[2:])
        return torch.cat([enlarged, plane], dim=1)

    def of_samples(self, ids: Sequence[int], seed: int, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        """Condition of images and of their labels. Raises UserError for other classes."""
        return self.of(images, None if labels is None else known_labels(labels, self.classes, self.title))

    def center(self, condition: Tensor | None) -> Tensor | None:
        return None if condition is None else super().center(condition[:, :-1])

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        assert condition is not None
        return super().bind(partial(net, class_labels=condition[:, -1, 0, 0].long()), condition[:, :-1])

    def check_labels(self, found: int | None) -> None:
        check_classes(self.classes, found)


#: Chosen by its `kind`.
AnyCondition = Annotated[
    Unconditional | ClassLabels | DroppedLabels | LowResolution | LabelledLowResolution, Field(discriminator="kind")
]
