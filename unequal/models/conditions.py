"""Conditions: what a network gets besides a noisy image and its timestep.

A condition is made from a batch and bound to a network, so that training, profiling, pruning and sampling do it in one
way. A further one is a class here, an entry of `CONDITIONS`, and a section of settings, whose fields it reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unequal.diffusion.predictions import Answer, NetworkFunction
from unequal.errors import UserError
from unequal.randomness import Stream, uniform_of


class Condition(ABC):
    """A condition: a tensor with a row an image, or None where there is nothing.

    Attributes:
        title: name of a model with this condition in messages.
        needed: what its network needs besides, in messages.
        embedded_classes: for how many labels its network needs an embedding; None for none.
        null: class index of no label; None where every image has its label.
        dropout: share of a batch's images whose label is withheld.
        takes_labels_of_images: whether a sample takes the label of the image whose low-resolution form it begins with.
    """

    title: str
    needed = ""
    embedded_classes: int | None = None
    null: int | None = None
    dropout = 0.0
    takes_labels_of_images = False

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


class Unconditional(Condition):
    """Nothing: images out of noise alone."""

    title = "an unconditional model"

    def of(self, images: Tensor | None, labels: Tensor | None) -> None:
        return None

    def check(self, condition: Tensor | None) -> None:
        if condition is not None:
            raise UserError(f"{self.title} takes no low-resolution image and no labels")

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        return net


class ClassLabels(Condition):
    """The image's class, int64, which the network embeds.

    With dropout it is withheld from some images, so that the network also learns to answer without: in place of a label
    stands one class more, the null class (2207.12598).
    """

    needed = "labels"

    def __init__(self, classes: int, dropout: float = 0.0) -> None:
        self.classes, self.dropout = classes, dropout
        self.null = classes if dropout else None
        self.embedded_classes = classes + 1 if dropout else classes
        self.title = f"a model of {classes} classes"

    def of(self, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        return labels

    def of_samples(self, ids: Sequence[int], seed: int, images: Tensor | None, labels: Tensor | None) -> Tensor:
        """The given labels, or uniform ones that are the same for every model. Raises UserError for other classes."""
        if labels is None:
            return (uniform_of(ids, seed, Stream.SAMPLE_LABELS) * self.classes).long()
        return known_labels(labels, self.classes, self.title)

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        return partial(net, class_labels=condition)


def known_labels(labels: Tensor, classes: int, title: str) -> Tensor:
    """The labels. Raises UserError where one is of no class of the model."""
    if labels.min() < 0 or labels.max() >= classes:
        raise UserError(f"labels {labels.min()} … {labels.max()}; {title} allows 0 … {classes - 1}")
    return labels


class LowResolution(Condition):
    """The image at a factor-th of its resolution, enlarged again, which the network sees as further channels."""

    needed = "a low-resolution image"
    title = "a model of super-resolution"

    def __init__(self, super_resolution_factor: int, residual: bool = False) -> None:
        self.factor, self.residual = super_resolution_factor, residual

    def input_channels(self, channels: int) -> int:
        """Two images side by side."""
        return 2 * channels

    def of(self, images: Tensor | None, labels: Tensor | None) -> Tensor | None:
        from unequal.diffusion.super_resolution import blurred  # needed by super-resolution alone

        return None if images is None else blurred(images, self.factor)

    def center(self, condition: Tensor | None) -> Tensor | None:
        return condition if self.residual else None

    def bind(self, net: NetworkFunction, condition: Tensor | None) -> NetworkFunction:
        def seeing_both(sample: Tensor, timestep: Tensor) -> Answer:
            assert condition is not None
            return net(torch.cat([sample, condition.to(sample)], dim=1), timestep)

        return seeing_both


class LabelledLowResolution(LowResolution):
    """The image at low resolution and its class: guided-diffusion's upsamplers (2105.05233).

    One tensor holds both: the enlarged image, and the class as a further channel of one value.
    """

    needed = "a low-resolution image and its label"
    takes_labels_of_images = True

    def __init__(self, super_resolution_factor: int, classes: int, residual: bool = False) -> None:
        super().__init__(super_resolution_factor, residual)
        self.classes = self.embedded_classes = classes
        self.title = f"a model of super-resolution with {classes} classes"

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


#: Conditions by the names under which settings choose them.
CONDITIONS: dict[str, type[Condition]] = {
    "none": Unconditional,
    "labels": ClassLabels,
    "dropped_labels": ClassLabels,
    "low_resolution": LowResolution,
    "labelled_low_resolution": LabelledLowResolution,
}


def condition_of(settings: Iterable[tuple[str, Any]]) -> Condition:
    """The condition of keys and values of settings."""
    keys = dict(settings)
    return CONDITIONS[keys.pop("kind")](**keys)
