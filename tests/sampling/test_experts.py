"""Experts as one network: each image is answered by the expert of its timestep, and learns it alone."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unequal.diffusion.schedule import Flow
from unequal.errors import UserError
from unequal.sampling.experts import Experts
from unequal.timesteps.boundary import Boundary


class Scale(nn.Module):
    def __init__(self, factor: float, form: str = "tensor") -> None:
        super().__init__()
        self.factor, self.form = nn.Parameter(torch.tensor(factor)), form

    def forward(self, sample: Tensor, timestep: Tensor | float, label: Tensor | float = 0.0) -> Any:
        answer = sample * self.factor + label
        return {"tensor": answer, "tuple": (answer,), "object": SimpleNamespace(sample=answer)}[self.form]


IMAGES = torch.ones(5, 1)
T = torch.tensor([999, 0, 619, 620, 700])


def three(form: str = "tensor") -> Experts:
    return Experts([Scale(1.0, form), Scale(10.0, form), Scale(100.0, form)], borders=[620, 900])


def test_each_image_is_answered_by_the_expert_of_its_timestep():
    label = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]])
    assert three()(IMAGES, T, label=label).flatten().tolist() == [101.0, 3.0, 4.0, 14.0, 15.0]
    assert three()(IMAGES, T, label=0.5).flatten().tolist() == [100.5, 1.5, 1.5, 10.5, 10.5]


@pytest.mark.parametrize("timestep", [torch.tensor(620), torch.tensor([620]), 620])
def test_one_timestep_of_all_images_as_samplers_give_it(timestep):
    assert three()(IMAGES, timestep).flatten().tolist() == [10.0] * 5


@pytest.mark.parametrize("timesteps", [T, torch.tensor([3, 3, 3, 3, 3])])
def test_answers_have_the_form_of_the_experts(timesteps):
    expected = three()(IMAGES, timesteps)
    assert torch.equal(three("tuple")(IMAGES, timesteps)[0], expected)
    assert torch.equal(three("object")(IMAGES, timesteps).sample, expected)


def test_an_expert_learns_from_its_own_images_alone():
    net = three()
    net(IMAGES, T)[1:3].sum().backward()
    assert [expert.factor.grad.item() for expert in net.experts] == [2.0, 0.0, 0.0]


def test_a_flow_is_routed_by_the_times_that_networks_get():
    """A boundary at 1000·s = 875 after a shift of 12 is one of times, wherever the timesteps are."""
    flow = Flow(1000, shift=12.0)
    net = Experts([Scale(1.0), Scale(2.0)], borders=[875.0])
    first = Boundary.at_time(0.875).timestep(flow)
    assert net.route(flow.model_timestep(torch.tensor([first - 1, first]))).tolist() == [0, 1]


@pytest.mark.parametrize("borders", [[], [1, 1], [2, 1], [1, 2, 3]])
def test_borders_that_divide_nothing_are_refused(borders):
    with pytest.raises(UserError, match=r"of 3 experts; allowed: rising, one fewer than experts$"):
        Experts([Scale(1.0)] * 3, borders)
