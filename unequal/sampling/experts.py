"""Experts of ranges of timesteps as one network, for loops and samplers that know of one alone."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.models.denoiser import tensor_in


class Experts(nn.Module):
    """Networks of which each answers for a range of timesteps, distinguished by the timesteps that networks take.

    Where all images of a batch are for one expert, as in sampling, its answer is handed on as it is.

    Args:
        experts: from the data end to the noise end, K.
        borders: rising, K − 1: expert k answers from border k − 1 on, below border k. In the networks' own unit:
            numbers of timesteps, or 1000·s of a flow, after its shift.

    Raises:
        UserError: borders that do not rise, or not one fewer than experts.
    """

    borders: Tensor

    def __init__(self, experts: Iterable[nn.Module], borders: Sequence[float]) -> None:
        super().__init__()
        self.experts = nn.ModuleList(experts)
        if len(borders) != len(self.experts) - 1 or any(low >= high for low, high in pairwise(borders)):
            raise UserError(
                f"borders {list(borders)} of {len(self.experts)} experts; allowed: rising, one fewer than experts"
            )
        self.register_buffer("borders", torch.tensor(list(borders), dtype=torch.float64), persistent=False)

    def route(self, timesteps: Tensor) -> Tensor:
        """The number of the expert of each timestep [B], on their device."""
        return torch.bucketize(timesteps.double(), self.borders.to(timesteps.device), right=True)

    def forward(self, sample: Tensor, timestep: Tensor | float, **arguments: Any) -> Any:
        """Answers of the experts for noisy images.

        Args:
            sample: [B, …].
            timestep: of all images, or [B]. Those on a CPU are routed without waiting for the device of the images.
            arguments: handed on; of tensors with B rows each expert gets those of its own images.

        Returns:
            As the experts do: a tensor, a tuple of one, or an object with the attribute `sample`.
        """
        routes = self.route(torch.as_tensor(timestep).reshape(-1))
        if len(numbers := routes.unique().tolist()) == 1:
            return self.experts[numbers[0]](sample, timestep, **arguments)
        timesteps = torch.as_tensor(timestep, device=sample.device)
        rows = [(routes == number).nonzero()[:, 0].to(sample.device) for number in numbers]
        answers = [
            self.experts[number](sample[own], timesteps[own], **rows_of(arguments, own, len(sample)))
            for number, own in zip(numbers, rows, strict=True)
        ]
        whole = torch.cat([tensor_in(answer) for answer in answers])[torch.cat(rows).argsort()]
        if isinstance(answers[0], Tensor):
            return whole
        return (whole,) if isinstance(answers[0], tuple) else SimpleNamespace(sample=whole)


def rows_of(arguments: dict[str, Any], own: Tensor, count: int) -> dict[str, Any]:
    """Arguments of some images of a batch."""
    return {
        name: value[own] if isinstance(value, Tensor) and value.ndim and len(value) == count else value
        for name, value in arguments.items()
    }
