"""Losses of every timestep: the same draws for every model and batch size, and cases with a known answer."""

import shutil
from collections.abc import Callable, Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from specs import class_labels, low_resolution, record_of, spec_of
from torch import Tensor, nn

from unequal.data.prepared import tensor_of, to_model_range
from unequal.diffusion.predictions import target
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.profiling import Draws, head_products, profile, profile_optimal_loss
from unequal.models.denoiser import Denoiser
from unequal.runtime.chunks import Chunks
from unequal.sampling.ensemble import Ensemble, Expert

CPU = torch.device("cpu")
SCHEDULE = NoiseSchedule.linear(50)


class Answering(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.asked = function, []
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x_t: Tensor, timesteps: Tensor) -> Any:
        self.asked.append(x_t)
        return SimpleNamespace(sample=self.function(x_t, timesteps))


def draws_of(images: Tensor, count: int = 12, seed: int = 0) -> Draws:
    return Draws.of(images, 50, count, seed, CPU)


@pytest.fixture
def images(prepared):
    return tensor_of(prepared.train)


def joined(draws: Draws, size: int) -> list[Tensor]:
    return [torch.cat(parts) for parts in zip(*(one[:3] for one in draws.batches(size)), strict=True)]


@pytest.mark.parametrize("size", [7, 12, 10_000])
def test_batches_may_be_cut_anywhere(images, size):
    whole = joined(draws_of(images), 600)
    assert all(len(one.t) == size for one in list(draws_of(images).batches(size))[:-1])
    assert all(torch.equal(a, b) for a, b in zip(joined(draws_of(images), size), whole, strict=True))
    assert torch.equal(whole[2], torch.arange(50).repeat_interleave(12))


def test_a_network_gets_the_labels_of_the_images_drawn(images):
    """One that knows the image of each label errs nowhere, one with other labels does."""
    labels = torch.arange(len(images))

    def loss(chosen: Tensor) -> float:
        def sight(x_t: Tensor, timesteps: Tensor, class_labels: Tensor) -> Any:
            return SimpleNamespace(sample=to_model_range(images)[class_labels])

        net = Answering(lambda x_t, t: x_t)
        net.forward = sight  # type: ignore[method-assign]
        denoiser = Denoiser.of(net, spec_of("sample", condition=class_labels(len(images))))
        return float(profile(denoiser, Draws.of(images, 50, 12, 0, CPU, chosen), 70).epsilon.max())

    assert loss(labels) < 1e-6
    assert loss(labels.roll(1)) > 0.1


def test_draws_follow_the_seed_and_the_split(images):
    first, again, other, split = (
        joined(draws_of(*one), 100)[1] for one in ((images,), (images,), (images, 12, 1), (images[:20],))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other) and not torch.equal(first, split)


def test_no_image_twice_at_a_timestep_while_there_are_enough(images):
    index = draws_of(images, count=len(images)).index
    assert all(sorted(row) == list(range(len(images))) for row in index)
    assert draws_of(images[:3], count=10).index.shape == (50, 10)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_a_perfect_denoiser_loses_nothing(images, prediction):
    x0 = to_model_range(images[:1])

    def truth(x_t: Tensor, timesteps: Tensor) -> Tensor:
        levels = SCHEDULE.at(timesteps, x_t)
        return target(prediction, x0.expand_as(x_t), (x_t - levels[0] * x0) / levels[1], *levels)

    losses = profile(Denoiser.of(Answering(truth), spec_of(prediction)), draws_of(images[:1], count=4), 50).epsilon
    assert losses.shape == (50, 4)
    assert losses.dtype == np.float32
    assert losses.max() < 1e-8


def test_a_denoiser_that_answers_nothing_loses_the_noises_variance(images):
    losses = profile(Denoiser.of(Answering(lambda x, t: 0 * x), spec_of("epsilon")), draws_of(images), 100).epsilon
    assert losses.mean() == pytest.approx(1, abs=float(4 * losses.std() / losses.size**0.5))
    # The mean of 64 squares of a standard normal has the variance 2/64.
    assert float(losses.std()) == pytest.approx((2 / 64) ** 0.5, rel=0.15)


def test_an_error_of_x0_is_that_of_the_same_answer_clipped_where_it_is_pixels(images):
    """An answer of 3 everywhere is white to a model of pixels, and 3 to one of latents."""
    draws, x0 = draws_of(images), to_model_range(images).flatten(1).double().numpy()
    for autoencoder, answer in ((None, 1.0), ("it", 3.0)):
        denoiser = Denoiser.of(Answering(lambda x, t: 3 + 0 * x), spec_of("sample", autoencoder=autoencoder))
        expected = np.square(x0 - answer).mean(1)[draws.index]
        np.testing.assert_allclose(profile(denoiser, draws, 100).x0, expected, rtol=1e-5)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_where_nothing_is_clipped_both_errors_differ_by_the_noise_over_the_signal(images, prediction):
    """‖Δx0‖² = (σ²/α²)·‖Δε‖²."""
    denoiser = Denoiser.of(Answering(lambda x, t: 0.3 * x), spec_of(prediction, autoencoder="it"))
    found = profile(denoiser, draws_of(images), 100)
    np.testing.assert_allclose(found.x0 * SCHEDULE.snr.numpy()[:, None], found.epsilon, rtol=1e-3)


def ensemble(nets: Sequence[nn.Module], ranges: Sequence[tuple[int, int]], resident: bool = True) -> Ensemble:
    experts = [
        Expert(Denoiser.of(net, spec_of()), record_of(*bounds)) for net, bounds in zip(nets, ranges, strict=True)
    ]
    return Ensemble(experts, resident)


RANGES = [(0, 9), (10, 10), (11, 49)]


@pytest.mark.parametrize("batch_size", [7, 1000])
def test_each_draw_is_asked_once_of_the_expert_of_its_timestep(images, batch_size):
    """So experts' errors are those that each alone has on its timesteps, whether or not all are on the device."""
    functions = [lambda x, t, share=share: share * x for share in (0.1, 0.5, 0.9)]
    alone = [profile(Denoiser.of(Answering(one), spec_of()), draws_of(images), batch_size) for one in functions]
    for resident in (True, False):
        nets = [Answering(one) for one in functions]
        found = profile(ensemble(nets, RANGES, resident), draws_of(images), batch_size)
        for table, tables in zip(found, zip(*alone, strict=True), strict=True):
            expected = [one[first : last + 1] for one, (first, last) in zip(tables, RANGES, strict=True)]
            np.testing.assert_array_equal(table, np.concatenate(expected))
        assert [sum(map(len, net.asked)) for net in nets] == [12 * 10, 12, 12 * 39]


def test_experts_come_to_the_device_one_after_the_other_and_once(images):
    """On the CPU too, what is brought to the device is a copy: its weights lie elsewhere than the host's."""
    home: dict[nn.Module, int] = {}
    present: list[tuple[int, ...]] = []

    def answer(x: Tensor, t: Tensor) -> Tensor:
        present.append(tuple(i for i, net in enumerate(home) if net.unused.data_ptr() != home[net]))
        return x

    nets = [Answering(answer) for _ in RANGES]
    home.update((net, net.unused.data_ptr()) for net in nets)
    profile(ensemble(nets, RANGES, resident=False), draws_of(images), 50)
    assert [key for key, _ in groupby(present)] == [(0,), (1,), (2,)]


def test_no_model_is_below_the_floor(images, tiny_net):
    draws = draws_of(images, count=36)
    floor = profile_optimal_loss(images, SCHEDULE, draws)
    assert floor.shape == (50, 36)
    mean = to_model_range(images).mean(0)

    # Strong guesses: the mean image, and the nearest image to x_t/α.
    def nearest(x_t: Tensor, timesteps: Tensor) -> Tensor:
        clean = to_model_range(images)
        scaled = SCHEDULE.alpha[timesteps].float().reshape(-1, 1, 1, 1) * clean[:, None]
        return clean[(x_t - scaled).square().flatten(2).sum(2).argmin(0)]

    guesses = [Answering(lambda x, t: mean.expand_as(x)), Answering(nearest)]
    rivals = [Denoiser.of(guess, spec_of("sample")) for guess in guesses] + [
        Denoiser.of(tiny_net(), spec_of("epsilon"))
    ]
    for rival in rivals:
        losses = profile(rival, draws, 300).epsilon
        excess = (losses - floor).mean(1)
        error = (losses - floor).std(1) / 36**0.5
        assert excess.mean() > 0
        assert (excess > -4 * error - 1e-6).all()


def test_products_of_known_errors(images):
    """One image, and heads whose x0 are wrong by −1, 2 and ±1 in turns: products are exact."""
    x0 = to_model_range(images[:1])
    turns = torch.tensor([1.0, -1.0]).repeat(32).reshape(1, 1, 8, 8)

    def heads(x_t: Tensor, timesteps: Tensor) -> Tensor:
        alpha, sigma = SCHEDULE.at(timesteps, x_t)
        first, second, third = ((x0 + wrong).expand_as(x_t) for wrong in (-1, 2, turns))
        return torch.cat([first, (alpha * x_t - second) / sigma, (x_t - alpha * third) / sigma], dim=1)

    denoiser = Denoiser.of(Answering(heads), spec_of("mixed"), torch.ones(50, 3) / 3)
    products = head_products(denoiser, draws_of(images[:1], count=3), 40).mean(1)
    expected = np.array([[1.0, -2.0, 0.0], [-2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(products, np.tile(expected, (50, 1, 1)), atol=5e-3)


@pytest.mark.parametrize("heads", [1, 3])
def test_super_resolution_is_profiled_with_what_it_sees(heads):
    """The low-resolution form of a plain image says all, so that only a network that sees it loses nothing."""
    plain = torch.arange(0, 250, 10, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 1, 8, 8).contiguous()

    def answer(images: Tensor, timesteps: Tensor) -> Tensor:
        x_t, x0 = images.chunk(2, dim=1)
        alpha, sigma = SCHEDULE.at(timesteps, x_t)
        epsilon = (x_t - alpha * x0) / sigma
        return torch.cat([x0, alpha * epsilon - sigma * x0, epsilon][-heads:], dim=1)

    spec = spec_of("epsilon" if heads == 1 else "mixed", condition=low_resolution(4))
    denoiser = Denoiser.of(Answering(answer), spec, *([torch.full((50, 3), 1 / 3)] if heads == 3 else []))
    measure = head_products if heads == 3 else lambda *asked: profile(*asked).epsilon
    assert np.abs(measure(denoiser, draws_of(plain, count=4), 50)).max() < 1e-6


class Stop(Exception):
    """The process is ended from outside."""


def test_a_profile_that_was_stopped_goes_on_from_its_finished_parts(images, tmp_path):
    draws, batch_size = draws_of(images), 7
    whole = profile(ensemble([Answering(lambda x, t: x * 0.9)] * 3, RANGES), draws, batch_size)
    left = iter(range(5))

    def answer(x: Tensor, t: Tensor) -> Tensor:
        if next(left, None) is None:
            raise Stop
        return x * 0.9

    with pytest.raises(Stop):
        profile(ensemble([Answering(answer)] * 3, RANGES), draws, batch_size, chunks=Chunks(tmp_path))
    rest = Answering(lambda x, t: x * 0.9)
    resumed = profile(ensemble([rest] * 3, RANGES), draws, batch_size, chunks=Chunks(tmp_path))
    assert all(np.array_equal(one, other) for one, other in zip(resumed, whole, strict=True))
    made_before = 600 - sum(map(len, rest.asked))
    assert 0 < made_before <= 5 * batch_size


def test_a_floor_is_estimated_from_samples(images):
    draws = draws_of(images)
    whole = profile_optimal_loss(images, SCHEDULE, draws)
    np.testing.assert_array_equal(profile_optimal_loss(images, SCHEDULE, draws, sampled=len(images)), whole)
    found = profile_optimal_loss(images, SCHEDULE, draws, sampled=len(images) // 2)
    assert found.shape == whole.shape
    np.testing.assert_array_equal(found, profile_optimal_loss(images, SCHEDULE, draws, sampled=len(images) // 2))
    assert found[-5:].mean() == pytest.approx(whole[-5:].mean(), rel=0.3)


def test_a_floor_that_was_stopped_goes_on(images, tmp_path):
    draws = draws_of(images)
    whole = profile_optimal_loss(images, SCHEDULE, draws)
    chunks = Chunks(tmp_path)
    profile_optimal_loss(images, SCHEDULE, draws, chunks)
    (tmp_path / "24.chunk").unlink()
    (tmp_path / "36.chunk").write_bytes(b"cut")
    shutil.copy(tmp_path / "48.chunk", tmp_path / "60.chunk")
    assert np.array_equal(profile_optimal_loss(images, SCHEDULE, draws, chunks), whole)
