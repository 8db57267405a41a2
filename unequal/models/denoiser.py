"""A network as a denoiser: noisy image and timestep in, x0 or ε out, whatever it predicts."""

import copy
from pathlib import Path
from typing import Self

import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import Tensor

from unequal.diffusion.learned_variance import large_share
from unequal.diffusion.predictions import HEADS, to_epsilon, to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.super_resolution import blurred
from unequal.errors import UserError
from unequal.models.artifact import Heads, ModelRecord, load_heads, load_model


class Denoiser:
    """A trained network with its schedule and prediction.

    Args:
        net: answers [B, C, H, W], or [B, 3·C, H, W] for the prediction `mixed`.
        schedule: the one that it was trained with.
        prediction: `epsilon`, `v_prediction`, `sample` or `mixed`.
        head_weights: [T, 3] in the order of HEADS, rows summing to 1; needed by `mixed` alone.
        enlargement: factor of super-resolution, None for generation. Such a network reads [B, 2·C, H, W],
            and is asked through `beside` or `given`.
        learned_variance: whether the network answers twice as many channels, the second half for the variance.
        device: where it is asked; None: where the network is.
        classes: that the network is told, None for none; it is asked through `beside` or `given` too.
    """

    def __init__(
        self,
        net: UNet2DModel,
        schedule: NoiseSchedule,
        prediction: str,
        head_weights: Tensor | None = None,
        enlargement: int | None = None,
        learned_variance: bool = False,
        device: torch.device | None = None,
        classes: int | None = None,
    ) -> None:
        if (prediction == "mixed") != (head_weights is not None):
            raise UserError(f"prediction '{prediction}' {'needs' if prediction == 'mixed' else 'has no'} head weights")
        self.device = next(net.parameters()).device if device is None else device
        self.net = net.eval()
        self.schedule = schedule.to(self.device)
        self.prediction = prediction
        self.head_weights = None if head_weights is None else head_weights.to(self.device)
        self.enlargement = enlargement
        self.learned_variance = learned_variance
        self.classes = classes
        self.condition: Tensor | None = None

    @classmethod
    def of_heads(
        cls,
        net: UNet2DModel,
        schedule: NoiseSchedule,
        enlargement: int | None = None,
        classes: int | None = None,
    ) -> Self:
        """Three heads whose combination is not settled yet, to measure them one by one."""
        weights = torch.full((schedule.timesteps, len(HEADS)), 1 / len(HEADS))
        return cls(net, schedule, "mixed", weights, enlargement, classes=classes)

    @property
    def heads(self) -> tuple[str, ...]:
        """What each head of the network predicts."""
        return HEADS if self.prediction == "mixed" else (self.prediction,)

    def condition_of(self, x0: Tensor, labels: Tensor | None = None) -> Tensor | None:
        """What the network is told of images [B, C, H, W] and their labels [B]; None where it is told nothing."""
        if self.classes is not None:
            return labels
        return None if self.enlargement is None else blurred(x0, self.enlargement)

    def beside(self, condition: Tensor | None) -> Self:
        """The same denoiser for a batch with this condition.

        Args:
            condition: enlarged low-resolution images [B, C, H, W] for super-resolution, labels [B] (int64) for a
                class-conditional model, None for any other.

        Raises:
            UserError: a condition for a model that takes none, or none for one that needs it.
        """
        if condition is None:
            self.check_independence()
        elif self.enlargement is None and self.classes is None:
            raise UserError("a model of generation takes no low-resolution image, and one without classes no labels")
        told = copy.copy(self)
        told.condition = condition
        return told

    def check_independence(self) -> None:
        """Raise UserError where the network cannot be asked without a condition."""
        if self.enlargement is not None:
            raise UserError("a model of super-resolution needs a low-resolution image")
        if self.classes is not None:
            raise UserError(f"a model of {self.classes} classes needs labels")

    def given(self, x0: Tensor, labels: Tensor | None = None) -> Self:
        """The same denoiser, told what it may know of images [B, C, H, W] and their labels [B]."""
        return self.beside(self.condition_of(x0, labels))

    def answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """What the network predicts, [B, C, H, W] for each of its heads."""
        whole = self.whole_answer(x_t, timesteps)
        return whole.chunk(2, dim=1)[0] if self.learned_variance else whole

    def whole_answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """What the network predicts and, behind it, says of the variance if it has learned one."""
        if self.condition is None:
            self.check_independence()
            return self.net(x_t, timesteps).sample
        if self.classes is not None:
            return self.net(x_t, timesteps, class_labels=self.condition).sample
        return self.net(torch.cat([x_t, self.condition.to(x_t)], dim=1), timesteps).sample

    @torch.no_grad()
    def x0_of_heads(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The x0 that each head stands for, [heads, B, C, H, W] in the order of `heads`."""
        alpha, sigma = self.schedule.at(timesteps, x_t)
        outputs = self.answer(x_t, timesteps).chunk(len(self.heads), dim=1)
        return torch.stack(
            [to_x0(head, output, x_t, alpha, sigma) for head, output in zip(self.heads, outputs, strict=True)]
        )

    @torch.no_grad()
    def x0(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The predicted image, [B, C, H, W].

        Args:
            x_t: [B, C, H, W].
            timesteps: [B], int64.
        """
        if self.head_weights is not None:
            weights = self.head_weights[timesteps].to(x_t).T.reshape(len(HEADS), -1, 1, 1, 1)
            return (weights * self.x0_of_heads(x_t, timesteps)).sum(0)
        alpha, sigma = self.schedule.at(timesteps, x_t)
        return to_x0(self.prediction, self.answer(x_t, timesteps), x_t, alpha, sigma)

    @torch.no_grad()
    def x0_and_share(self, x_t: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted image, and the share of log β in the log-variance of the step from it, both [B, C, H, W].

        Raises:
            UserError: a network that has learned no variance.
        """
        if not self.learned_variance:
            raise UserError("the model has learned no variance (network.learned_variance); allowed: posterior")
        output, variance = self.whole_answer(x_t, timesteps).chunk(2, dim=1)
        return to_x0(self.prediction, output, x_t, *self.schedule.at(timesteps, x_t)), large_share(variance)

    @torch.no_grad()
    def epsilon(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The predicted noise, [B, C, H, W]."""
        if self.prediction == "epsilon":
            return self.answer(x_t, timesteps)
        return to_epsilon(self.x0(x_t, timesteps), x_t, *self.schedule.at(timesteps, x_t))


def load_denoiser(
    folder: Path, device: torch.device, select: str | None = None, resident: bool = True
) -> tuple[Denoiser, ModelRecord]:
    """A model folder as a denoiser on a device.

    Args:
        folder: of the model.
        device: where it shall answer.
        select: how three heads are combined, instead of the way that was settled when they were trained.
        resident: put the weights there too, or leave them in host memory for `unequal.models.lodging` to bring.

    Raises:
        UserError: a file is damaged, or a selection is asked of a model with one head.
    """
    net, record = load_model(folder)
    heads = load_heads(folder)
    if select is not None:
        if heads is None:
            raise UserError(f"{folder}: prediction '{record.prediction}' has one head; '{select}' selects among three")
        heads = Heads.selected(select, heads.products)
    if resident:
        torch.nn.Module.to(net, device)
    weights = None if heads is None else heads.weights
    denoiser = Denoiser(
        net,
        record.noise_schedule(),
        record.prediction,
        weights,
        record.enlargement,
        record.learned_variance,
        device,
        record.classes,
    )
    return denoiser, record
