"""A network as a denoiser: noisy image and timestep in, x0 or ε out, whatever it predicts."""

import copy
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.posterior import large_share
from unequal.diffusion.predictions import HEADS, head_weights, to_epsilon, to_x0
from unequal.errors import UserError
from unequal.models.folder import Heads, Loader, ModelRecord, load_heads, load_model
from unequal.models.spec import ModelSpec
from unequal.runtime.devices import chosen_precision, is_compiled

#: Precision of a network's layers; sums, schedules and solvers stay in float32. auto: bf16 on a GPU that has it.
Precision = Literal["auto", "fp32", "bf16"]


class Denoiser:
    """A trained network and what it is.

    Args:
        net: answers as its spec says.
        spec: of the model.
        head_weights: [T, 3] in the order of HEADS, rows summing to 1; needed by the prediction `mixed` alone.
        device: where it is asked; None: where the network is.
    """

    def __init__(
        self,
        net: nn.Module,
        spec: ModelSpec,
        head_weights: Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        if (spec.prediction == "mixed") != (head_weights is not None):
            verb = "needs" if spec.prediction == "mixed" else "has no"
            raise UserError(f"prediction '{spec.prediction}' {verb} head weights")
        self.device = next(net.parameters()).device if device is None else device
        self.net = net.eval()
        self.spec = spec
        self.schedule = spec.noise_schedule().to(self.device)
        self.head_weights = None if head_weights is None else head_weights.to(self.device)
        self.condition: Tensor | None = None
        self.precision: Literal["fp32", "bf16"] = "fp32"
        #: Batch sizes that its network is compiled for, each larger than the one before; None: it is not compiled.
        self.compiled_sizes: list[int] | None = None

    @classmethod
    def of_heads(cls, net: nn.Module, spec: ModelSpec) -> Self:
        """Three heads whose combination is not settled yet, to measure them one by one."""
        return cls(net, spec, torch.full((spec.timesteps, len(HEADS)), 1 / len(HEADS)))

    @property
    def heads(self) -> tuple[str, ...]:
        """Prediction of each head of the network."""
        return self.spec.heads

    @property
    def routes(self) -> np.ndarray:
        """The number of the denoiser that each timestep is asked of, [T]: alone it answers for all of them."""
        return np.zeros(self.spec.timesteps, dtype=int)

    def ready(self, timestep: int) -> Self:
        """The denoiser of a timestep, its network on the device: this one; see `unequal.sampling.ensemble`."""
        return self

    def accelerated(
        self, precision: Precision, channels_last: bool = False, compiled: bool | str = False, calls: int = 0
    ) -> Self:
        """Denoiser of the same network that computes in another precision; the network's layout changes in place.

        Args:
            precision: of the network's layers under autocast; what it is asked and answers stays float32.
            channels_last: lay out filters as [N, H, W, C], which tensor cores want.
            compiled: compile the network, once; `auto`: where it pays, see `unequal.runtime.devices.is_compiled`.
            calls: of the network that are to come, about.
        """
        if channels_last:
            self.net.to(memory_format=torch.channels_last)
        accelerated = copy.copy(self)
        if is_compiled(compiled, self.device, calls):
            accelerated.compiled_sizes = []
            if self.net._compiled_call_impl is None:
                self.net.compile()
        accelerated.precision = chosen_precision(precision, self.device)
        return accelerated

    def conditioned(self, condition: Tensor | None) -> Self:
        """Denoiser bound to the condition of a batch, as `unequal.models.conditions` makes it.

        Raises:
            UserError: a condition for a model that takes none, or none for one that needs it.
        """
        self.spec.conditioning.check(condition)
        conditioned = copy.copy(self)
        conditioned.condition = condition
        return conditioned

    def conditioned_on(self, x0: Tensor, labels: Tensor | None = None) -> Self:
        """Denoiser bound to what it may know of images [B, C, H, W] and their labels [B]."""
        return self.conditioned(self.spec.conditioning.of(x0, labels))

    def answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """Prediction of the network, [B, C, H, W] for each of its heads."""
        whole = self.whole_answer(x_t, timesteps)
        return whole.chunk(2, dim=1)[0] if self.spec.variance == "learned" else whole

    def whole_answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """Prediction of the network, followed by its output for the variance if it has learned one."""
        self.spec.conditioning.check(self.condition)
        network = self.spec.conditioning.bind(self.net, self.condition)
        if (center := self.center) is not None:
            x_t = x_t - self.schedule.at(timesteps, x_t)[0] * center
        with torch.autocast(x_t.device.type, torch.bfloat16, enabled=self.precision == "bf16"), self.way(len(x_t)):
            answer: Tensor = network(x_t, self.schedule.model_timestep(timesteps)).sample
        return answer.to(x_t.dtype)

    def way(self, size: int) -> AbstractContextManager[object]:
        """Context of a call with so many images: one with fewer than before would take longer to compile than to run.

        Such a call comes last, or at the border of two experts.
        """
        if self.compiled_sizes is None:
            return nullcontext()
        largest = max(self.compiled_sizes, default=0)
        if size < largest:
            return torch.compiler.set_stance("force_eager")
        if size > largest:
            self.compiled_sizes.append(size)
        return nullcontext()

    def image_of(self, prediction: str, output: Tensor, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The x0 [B, C, H, W] that a prediction of the network for x_t amounts to."""
        center, (alpha, sigma) = self.center, self.schedule.at(timesteps, x_t)
        if center is None:
            return to_x0(prediction, output, x_t, alpha, sigma)
        return center + to_x0(prediction, output, x_t - alpha * center, alpha, sigma)

    @property
    def center(self) -> Tensor | None:
        """Images whose difference from x0 the network works on; None where it works on x0 itself."""
        return self.spec.conditioning.center(self.condition)

    @torch.no_grad()
    def x0_of_heads(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The x0 that each head stands for, [heads, B, C, H, W] in the order of `heads`."""
        outputs = self.answer(x_t, timesteps).chunk(len(self.heads), dim=1)
        return torch.stack(
            [self.image_of(head, output, x_t, timesteps) for head, output in zip(self.heads, outputs, strict=True)]
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
        return self.image_of(self.spec.prediction, self.answer(x_t, timesteps), x_t, timesteps)

    @torch.no_grad()
    def x0_and_share(self, x_t: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted image, and the share of log β in the log-variance of the step from it, both [B, C, H, W].

        Raises:
            UserError: a network that has learned no variance.
        """
        if self.spec.variance != "learned":
            raise UserError("the model has learned no variance (network.variance); allowed: posterior")
        output, variance = self.whole_answer(x_t, timesteps).chunk(2, dim=1)
        return self.image_of(self.spec.prediction, output, x_t, timesteps), large_share(variance)

    @torch.no_grad()
    def epsilon_and_x0(self, x_t: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted noise and the predicted image from one answer of the network, both [B, C, H, W]."""
        if self.spec.prediction == "epsilon":
            epsilon = self.answer(x_t, timesteps)
            return epsilon, self.image_of("epsilon", epsilon, x_t, timesteps)
        x0 = self.x0(x_t, timesteps)
        return to_epsilon(x0, x_t, *self.schedule.at(timesteps, x_t)), x0

    def epsilon(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        return self.epsilon_and_x0(x_t, timesteps)[0]


def load_denoiser(
    folder: Path,
    device: torch.device,
    resident: bool = True,
    load: Loader = load_model,
) -> tuple[Denoiser, ModelRecord]:
    """A model folder as a denoiser on a device.

    Args:
        folder: of the model.
        device: where it shall answer.
        resident: put the weights there too, or leave them in host memory for `unequal.models.weights` to bring.
        load: how; `unequal.models.pruned.load_any_model` where the model may be pruned.

    Raises UserError where the model cannot be loaded so.
    """
    net, record = load(folder)
    heads = load_heads(folder)
    if resident:
        net.to(device)
    return Denoiser(net, record.spec, None if heads is None else heads.weights, device), record


def selected_heads(select: str, products: Tensor) -> Heads:
    """Three heads, combined in the way of that name by their products; see `unequal.diffusion.predictions`."""
    return Heads(torch.from_numpy(head_weights(select, products.numpy())), products)
