"""A network as a denoiser: the one door to it, for losses, validation, sampling and profiles.

**Timesteps are indices**, int64 [B] in 0 … T−1: rows of a schedule's tables. Samplers draw them; losses, validation,
solvers and profiles pass them on. What a network itself takes is made of them here alone, by
`NoiseSchedule.model_timestep`: the index, or 1000·s of a flow after its shift, as the networks of diffusers take it.
"""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.posterior import large_share
from unequal.diffusion.predictions import (
    HEADS,
    add_noise,
    check_prediction,
    heads_of,
    squared_error,
    target,
    to_epsilon,
    to_x0,
)
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.conditions import Condition, Unconditional
from unequal.runtime.devices import chosen_precision, is_compiled

if TYPE_CHECKING:
    from unequal.models.spec import ModelSpec

#: Precision of a network's layers; sums, schedules and solvers stay in float32. auto: bf16 on a GPU that has it.
Precision = Literal["auto", "fp32", "bf16"]


class Noised(NamedTuple):
    """Noised images and what a network answers, as it works on them: less the centre of their condition.

    Attributes:
        x0, epsilon, x_t: [B, …].
        alpha, sigma: of their timesteps, shaped to multiply them.
        output: [B, channels of all answers, …].
    """

    x0: Tensor
    epsilon: Tensor
    x_t: Tensor
    alpha: Tensor
    sigma: Tensor
    output: Tensor

    def errors(self, prediction: str, output: Tensor) -> Tensor:
        """Mean squared error of each image's prediction, [B]."""
        return squared_error(target(prediction, self.x0, self.epsilon, self.alpha, self.sigma), output)


class Denoiser:
    """A network, what it predicts, and how it is asked.

    A gradient flows through `ask`, `losses` and `answer`, none through predictions of x0 and ε. Whether layers drop
    anything out is the network's own mode, which `train` and `eval` set.

    Args:
        net: (x_t, `schedule.model_timestep(t)`, …) → a tensor, a tuple of one, or an object with it as `sample`.
        schedule: of the noise.
        prediction: of the network: `epsilon`, `v_prediction`, `sample`, `velocity`, or `mixed`, three by a head each.
        condition: what the network gets besides.
        head_weights: [T, 3], rows summing to 1: how the x0 of three heads are combined; None: they are not yet.
        learned_variance: whether as many further channels say the variance of a step.
        bounded: whether x0 lies in [−1, 1], as pixels do.
        device: where it is asked; None: where the network is, or the schedule of a function.

    Raises:
        UserError: a prediction that is unknown or has no meaning on the schedule, or weights of heads that it lacks.
    """

    def __init__(
        self,
        net: Callable[..., Any],
        schedule: NoiseSchedule,
        prediction: str,
        *,
        condition: Condition | None = None,
        head_weights: Tensor | None = None,
        learned_variance: bool = False,
        bounded: bool = False,
        device: torch.device | None = None,
    ) -> None:
        check_prediction(prediction, schedule, learned_variance)
        if head_weights is not None and (prediction != "mixed" or head_weights.shape != (schedule.timesteps, 3)):
            raise UserError(f"head weights of shape {list(head_weights.shape)} for prediction '{prediction}'")
        parameters = net.parameters() if isinstance(net, nn.Module) else iter(())
        self.device = device or next(parameters, schedule.alpha).device
        self.net: Any = net
        self.prediction, self.learned_variance, self.bounded = prediction, learned_variance, bounded
        self.schedule = schedule.to(self.device)
        self.head_weights = None if head_weights is None else head_weights.to(self.device)
        #: Prediction of each head of the network.
        self.heads = heads_of(schedule) if prediction == "mixed" else (prediction,)
        self.conditioning: Condition = Unconditional() if condition is None else condition
        self.condition: Tensor | None = None
        self.arguments: dict[str, Any] = {}
        #: None: that of the caller.
        self.precision: Literal["fp32", "bf16"] | None = None
        #: Batch sizes that its network is compiled for, each larger than the one before; None: it is not compiled.
        self.compiled_sizes: list[int] | None = None

    @classmethod
    def of(
        cls,
        net: nn.Module,
        spec: "ModelSpec",
        head_weights: Tensor | None = None,
        device: torch.device | None = None,
    ) -> Self:
        """A model, which drops nothing out."""
        return cls(
            net.eval(),
            spec.noise_schedule(),
            spec.prediction,
            condition=spec.conditioning,
            head_weights=head_weights,
            learned_variance=spec.variance == "learned",
            bounded=spec.space.autoencoder is None,
            device=device,
        )

    @property
    def routes(self) -> np.ndarray:
        """The number of the denoiser that each timestep is asked of, [T]: alone it answers for all of them."""
        return np.zeros(self.schedule.timesteps, dtype=int)

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
        accelerated = copy.copy(self)
        accelerated.precision = chosen_precision(precision, self.device)
        if isinstance(self.net, nn.Module):
            if channels_last:
                self.net.to(memory_format=torch.channels_last)
            if is_compiled(compiled, self.device, calls):
                accelerated.compiled_sizes = []
                if self.net._compiled_call_impl is None:
                    self.net.compile()
        return accelerated

    def around(self, net: Callable[..., Any]) -> Self:
        """Denoiser of another network of the same kind, or of the same one as it is wrapped for a training."""
        other = copy.copy(self)
        other.net = net
        return other

    def given(self, **arguments: Any) -> Self:
        """Denoiser whose network gets further arguments with each call, such as embeddings of a batch."""
        bound = copy.copy(self)
        bound.arguments = self.arguments | arguments
        return bound

    def conditioned(self, condition: Tensor | None) -> Self:
        """Denoiser bound to the condition of a batch, as `unequal.models.conditions` makes it.

        Raises:
            UserError: a condition for a model that takes none, or none for one that needs it.
        """
        self.conditioning.check(condition)
        conditioned = copy.copy(self)
        conditioned.condition = condition
        return conditioned

    def conditioned_on(self, x0: Tensor, labels: Tensor | None = None) -> Self:
        """Denoiser bound to what it may know of images [B, C, H, W] and their labels [B]."""
        return self.conditioned(self.conditioning.of(x0, labels))

    def ask(self, x0: Tensor, epsilon: Tensor, timesteps: Tensor) -> Noised:
        """Noise images [B, …] and ask the network about them."""
        if (center := self.conditioning.center(self.condition)) is not None:
            x0 = x0 - center
        alpha, sigma = self.schedule.at(timesteps, x0)
        x_t = add_noise(x0, epsilon, alpha, sigma)
        return Noised(x0, epsilon, x_t, alpha, sigma, self.network_output(x_t, timesteps))

    def losses(self, x0: Tensor, epsilon: Tensor, timesteps: Tensor) -> Tensor:
        """Mean squared error of the one prediction for each noised image, [B]."""
        noised = self.ask(x0, epsilon, timesteps)
        return noised.errors(self.prediction, noised.output)

    def network_output(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """All that the network answers to images less their centre."""
        self.conditioning.check(self.condition)
        network = self.conditioning.bind(self.net, self.condition)
        autocast = torch.autocast(x_t.device.type, torch.bfloat16, enabled=self.precision == "bf16")
        with nullcontext() if self.precision is None else autocast, self.eager_if_smaller(len(x_t)):
            answer = network(x_t, self.schedule.model_timestep(timesteps), **self.arguments)
        output, answers = tensor_in(answer), len(self.heads) + self.learned_variance
        if output.shape != (expected := (len(x_t), x_t.shape[1] * answers, *x_t.shape[2:])):
            raise UserError(f"the network answers {list(output.shape)} to {list(x_t.shape)}; needed: {list(expected)}")
        return output.to(x_t.dtype)

    def whole_answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """Prediction of the network for x_t, followed by its output for the variance if it has learned one."""
        if (center := self.conditioning.center(self.condition)) is not None:
            x_t = x_t - self.schedule.at(timesteps, x_t)[0] * center
        return self.network_output(x_t, timesteps)

    def answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """Prediction of the network, [B, C, H, W] for each of its heads."""
        whole = self.whole_answer(x_t, timesteps)
        return whole.chunk(2, dim=1)[0] if self.learned_variance else whole

    def eager_if_smaller(self, size: int) -> AbstractContextManager[object]:
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
        center, (alpha, sigma) = self.conditioning.center(self.condition), self.schedule.at(timesteps, x_t)
        if center is None:
            return to_x0(prediction, output, x_t, alpha, sigma)
        return center + to_x0(prediction, output, x_t - alpha * center, alpha, sigma)

    @torch.no_grad()
    def x0_of_heads(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The x0 that each head stands for, [heads, B, C, H, W] in the order of `heads`."""
        outputs = self.answer(x_t, timesteps).chunk(len(self.heads), dim=1)
        return torch.stack(
            [self.image_of(head, output, x_t, timesteps) for head, output in zip(self.heads, outputs, strict=True)]
        )

    @torch.no_grad()
    def x0(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The predicted image, [B, C, H, W]. Raises UserError for three heads whose combination is not settled."""
        if self.prediction != "mixed":
            return self.image_of(self.prediction, self.answer(x_t, timesteps), x_t, timesteps)
        if self.head_weights is None:
            raise UserError("prediction 'mixed' needs head weights")
        weights = self.head_weights[timesteps].to(x_t).T.reshape(len(HEADS), -1, 1, 1, 1)
        return (weights * self.x0_of_heads(x_t, timesteps)).sum(0)

    @torch.no_grad()
    def x0_and_share(self, x_t: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted image, and the share of log β in the log-variance of the step from it, both [B, C, H, W].

        Raises UserError for a network that has learned no variance.
        """
        if not self.learned_variance:
            raise UserError("the model has learned no variance (network.variance); allowed: posterior")
        output, variance = self.whole_answer(x_t, timesteps).chunk(2, dim=1)
        return self.image_of(self.prediction, output, x_t, timesteps), large_share(variance)

    @torch.no_grad()
    def epsilon_and_x0(self, x_t: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted noise and the predicted image from one answer of the network, both [B, C, H, W]."""
        if self.prediction == "epsilon":
            epsilon = self.answer(x_t, timesteps)
            return epsilon, self.image_of("epsilon", epsilon, x_t, timesteps)
        x0 = self.x0(x_t, timesteps)
        return to_epsilon(x0, x_t, *self.schedule.at(timesteps, x_t)), x0

    def epsilon(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """The predicted noise, [B, C, H, W]."""
        return self.epsilon_and_x0(x_t, timesteps)[0]


def tensor_in(answer: Any) -> Tensor:
    """The tensor in a network's answer."""
    if isinstance(answer, Tensor):
        return answer
    return answer[0] if isinstance(answer, tuple) else answer.sample
