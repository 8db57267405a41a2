"""A schedule that is none of the variance-preserving ones, α + σ = 1, goes through all that is computed over timesteps.

It stands for every schedule by (α, σ): nothing but its entry in the registry is made for it here.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from specs import spec_of
from torch import Tensor, nn

from unequal.data.pixels import tensor_of, to_model_range
from unequal.data.prepared import PreparedData
from unequal.diffusion import schedule as schedules
from unequal.diffusion.ddim import ddim, sampling_timesteps
from unequal.diffusion.optimal_denoiser import optimal_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.measures.loss_profile import LossProfile, excess_loss
from unequal.measures.profiling import Draws, profile, profile_floor
from unequal.models.denoiser import Denoiser
from unequal.models.spec import ModelSpec
from unequal.settings.samplers import Adaptive, EasyToHard
from unequal.settings.schedule import Schedule
from unequal.timesteps.groups import mean_limit, timestep_groups
from unequal.timesteps.partition import Partition, equal_log_snr, equal_sums

T = 50
CPU = torch.device("cpu")


def straight(timesteps: int) -> NoiseSchedule:
    """A rectified flow's: α = 1 − s, σ = s at s = (t + ½)/T."""
    s = (torch.arange(timesteps).double() + 0.5) / timesteps
    return NoiseSchedule("straight", 1 - s, s)


@pytest.fixture
def of_straight(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModelSpec]:
    """Specs of models on the straight path."""
    monkeypatch.setitem(schedules.SCHEDULES, "straight", straight)

    def spec(prediction: str = "epsilon", variance: str = "fixed") -> ModelSpec:
        chosen = Schedule.model_construct(name="straight", timesteps=T)
        return spec_of(prediction, variance=variance).model_copy(update={"schedule": chosen})

    return spec


@pytest.fixture
def images(prepared: PreparedData) -> Tensor:
    return tensor_of(prepared.train)


class Optimal(nn.Module):
    """The best possible denoiser of a few images as a network that predicts x0."""

    def __init__(self, images: Tensor, schedule: NoiseSchedule) -> None:
        super().__init__()
        self.images, self.schedule = to_model_range(images), schedule
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x_t: Tensor, timesteps: Tensor) -> object:
        t = int(timesteps[0])
        best = optimal_x0(x_t, self.images, self.schedule.alpha[t], self.schedule.sigma[t])
        return type("Answer", (), {"sample": best.to(x_t.dtype)})


def test_its_groups_are_the_known_ones() -> None:
    """Ten groups of SNR: 2 8 36 133 321 and mirrored, mean limit 0.775 for k = 0.5 by symmetry."""
    found = timestep_groups("snr", straight(1000), 10, 0.5)
    assert [one.range.length for one in found] == [2, 8, 36, 133, 321, 321, 133, 36, 8, 2]
    assert mean_limit(found) == pytest.approx(0.775)


def test_a_network_is_profiled_against_the_optimum_and_cut_into_slots(
    images: Tensor, of_straight: Callable[..., ModelSpec], tiny_net: Callable[..., UNet2DModel]
) -> None:
    few, spec = images[:12], of_straight()
    draws = Draws.of(few, T, 12, 0, CPU)
    losses = profile(Denoiser(tiny_net(), spec), draws, 60).epsilon
    floor = profile_floor(few, spec.noise_schedule(), draws)
    best = profile(Denoiser(Optimal(few, straight(T)), of_straight("sample")), draws, 12).epsilon
    np.testing.assert_allclose(best, floor, rtol=1e-3, atol=1e-5)
    assert (LossProfile.of(losses).mean > LossProfile.of(floor).mean).all()
    slots = equal_sums(excess_loss(losses, floor), 4)
    assert isinstance(slots, Partition) and slots.timesteps == T


def test_ddim_with_the_optimal_denoiser_ends_at_one_of_the_images(images: Tensor) -> None:
    few, schedule = to_model_range(images[:5]).double(), straight(T)
    start = torch.randn(8, *few.shape[1:], generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def predict(x_t: Tensor, t: int) -> Tensor:
        return optimal_x0(x_t, few, schedule.alpha[t], schedule.sigma[t])

    found = ddim(start, sampling_timesteps(T, T), schedule, predict)
    distances = (found[:, None] - few[None]).flatten(2).norm(dim=2)
    assert float(distances.min(1).values.max()) < 1e-3


def test_samplers_that_go_by_its_snr_are_made() -> None:
    clusters = equal_log_snr(straight(T), 4)
    assert clusters.lengths.tolist() == clusters.lengths[::-1].tolist()
    measuring = Adaptive(kind="adaptive", bins=4, refresh_images=10, images_per_bin=1).build(straight(T))
    np.testing.assert_allclose(measuring.probabilities, 1 / T)
    opening = EasyToHard(kind="easy_to_hard", clusters=4, patience_images=10).build(straight(T))
    assert int((opening.at(0) > 0).sum()) == clusters[-1].length


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        (
            {"prediction": "v_prediction"},
            "prediction: 'v_prediction' has no meaning on schedule 'straight', where α",
        ),
        (
            {"prediction": "mixed"},
            "prediction: 'mixed' has no meaning on schedule 'straight', where α",
        ),
        (
            {"variance": "learned"},
            "variance: 'learned' has no meaning on schedule 'straight', where α",
        ),
    ],
)
def test_what_needs_a_variance_of_one_is_refused(
    choice: dict[str, str], complaint: str, of_straight: Callable[..., ModelSpec]
) -> None:
    with pytest.raises(UserError) as refusal:
        of_straight(**choice).noise_schedule()
    assert str(refusal.value).startswith(complaint)
    assert "\n" not in str(refusal.value)


def test_the_schema_names_every_schedule() -> None:
    allowed = Schedule.model_json_schema()["properties"]["name"]["enum"]
    assert set(allowed) == set(schedules.SCHEDULES)
