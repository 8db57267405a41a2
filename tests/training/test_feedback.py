"""Feedback of a training for its samplers: losses without weights, and gradients of single images."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from hypothesis import given, settings
from hypothesis import strategies as st
from small_trainer import CPU, LEARNING, SCHEDULE

from unequal.timesteps.samplers import TimestepSampler
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import BatchSource, Feedback, squared_norms
from unequal.training.objectives import SingleHead

T = 50
OBJECTIVE = SingleHead(loss_weights("min_snr", "epsilon", SCHEDULE.snr, gamma=5.0))


class Recorder(TimestepSampler):
    learns = True

    def __init__(self) -> None:
        super().__init__(np.arange(1, T + 1) / np.arange(1, T + 1).sum(), unbiased=True)
        self.taught: list[tuple[np.ndarray, np.ndarray]] = []

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        self.taught.append((timesteps, losses))


@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(1, 100), st.integers(0, 60))
def test_measurements_come_first_and_after_every_so_many_images(batch_size, every, steps):
    class Asking(TimestepSampler):
        refresh_images, measured_images = every, 7

    images = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    sampler = Asking(np.full(T, 1 / T), unbiased=False)
    source = BatchSource(images, batch_size, sampler, 0, False, CPU)
    feedback = Feedback(Accelerator(cpu=True), None, source, None)  # type: ignore[arg-type]
    made, next_at = 0, 0
    for step in range(steps):
        assert feedback.measurements(step) == made
        if step * batch_size >= next_at:
            made += 1
            next_at = (step * batch_size // every + 1) * every
    assert feedback.images_seen(steps) == steps * batch_size + 7 * made


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_losses_of_a_whole_batch_are_handed_on_without_importance_weights(build, parts):
    sampler = Recorder()
    chosen = {"objective": OBJECTIVE, "batch_size": 6, "images": 24}
    trainer = build("trained", sampler=sampler, gradient_accumulation=parts, **chosen)
    trainer.run()
    assert len(sampler.taught) == 2  # of four steps: the last two's would count later
    batch = trainer.source.draw(0)
    with torch.no_grad():
        expected = (OBJECTIVE(build("untrained", **chosen).denoiser, batch).weighted / batch.weights).numpy()
    timesteps, losses = sampler.taught[0]
    np.testing.assert_array_equal(timesteps, batch.timesteps.numpy())
    np.testing.assert_allclose(losses, expected, rtol=2e-4)


def test_measured_images_are_others_at_each_step(build):
    one, timesteps = build(sampler=LEARNING["adaptive"]()).source, np.arange(4)
    first, again, other = (one.measured(step, timesteps).epsilon for step in (2, 2, 3))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, one.draw(2).epsilon)


def test_lengths_are_those_of_gradients_by_backward():
    """Gradients of parameters that a loss does not touch are 0."""
    net, inputs = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)), torch.randn(8, 3)
    parameters = [*net.parameters(), torch.nn.Parameter(torch.ones(4))]
    found = squared_norms((net(one).square().sum() for one in inputs), parameters)
    assert all(parameter.grad is None for parameter in parameters)
    for one, length in zip(inputs, found, strict=True):
        net.zero_grad()
        net(one).square().sum().backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in net.parameters()])
        torch.testing.assert_close(length, gradient.double().square().sum())
