"""Feedback of a training for its samplers: losses without weights, single gradients, the same for all processes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from diffusers.models.unets.unet_2d import UNet2DModel
from hypothesis import given
from hypothesis import strategies as st
from learn_in_processes import OBJECTIVE, OPTIMIZER, T, adaptive, learned_by_all

from unequal.data.prepared import PreparedData, tensor_of
from unequal.pipeline.program import launch
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import BatchSource
from unequal.training.feedback import Feedback
from unequal.training.loop import Trainer

CPU = torch.device("cpu")


class Recorder(TimestepSampler):
    learns = True

    def __init__(self) -> None:
        super().__init__(np.arange(1, T + 1) / np.arange(1, T + 1).sum(), unbiased=True)
        self.taught: list[tuple[np.ndarray, np.ndarray]] = []

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        self.taught.append((timesteps, losses))


@pytest.fixture
def source(prepared: PreparedData) -> Callable:
    def make(sampler: TimestepSampler, batch_size: int = 6) -> BatchSource:
        return BatchSource(tensor_of(prepared.train), batch_size, sampler, 0, False, CPU)

    return make


@pytest.fixture
def train(source: Callable, tiny_net, training_settings, runtime, tmp_path) -> Callable:
    def run(sampler: TimestepSampler, parts: int, net: UNet2DModel | None = None) -> Trainer:
        settings = training_settings(batch_size=6, gradient_accumulation=parts)
        chosen = {"optimizer": OPTIMIZER, "training": settings, "runtime": runtime, "images": 12}
        work = tmp_path / str(parts)
        trainer = Trainer(net or tiny_net(), source(sampler), OBJECTIVE, work=work, log=lambda *_: None, **chosen)
        trainer.run()
        return trainer

    return run


@given(st.integers(1, 40), st.integers(1, 100), st.integers(0, 60))
def test_measurements_come_first_and_after_every_so_many_images(batch_size: int, every: int, steps: int) -> None:
    class Asking(TimestepSampler):
        refresh_images, measured_images = every, 7

    images = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    sampler = Asking(np.full(T, 1 / T), unbiased=False)
    feedback = Feedback(Accelerator(cpu=True), torch.nn.Linear(1, 1), None, None)  # type: ignore[arg-type]
    feedback.source = BatchSource(images, batch_size, sampler, 0, False, CPU)
    made, next_at = 0, 0
    for step in range(steps):
        assert feedback.measurements(step) == made
        if step * batch_size >= next_at:
            made += 1
            next_at = (step * batch_size // every + 1) * every
    assert feedback.images_seen(steps) == steps * batch_size + 7 * made


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_losses_of_a_whole_batch_are_handed_on_without_importance_weights(train: Callable, tiny_net, parts: int):
    sampler = Recorder()
    source = train(sampler, parts).source
    assert len(sampler.taught) == 2
    batch = source.draw(0)
    with torch.no_grad():
        expected = (OBJECTIVE(tiny_net(), batch).weighted / batch.weights).numpy()
    timesteps, losses = sampler.taught[0]
    np.testing.assert_array_equal(timesteps, batch.timesteps.numpy())
    np.testing.assert_allclose(losses, expected, rtol=2e-4)


def test_measured_images_are_others_at_each_step(source: Callable) -> None:
    one = source(adaptive())
    timesteps = np.arange(6)
    assert torch.equal(one.measured(2, timesteps).epsilon, one.measured(2, timesteps).epsilon)
    assert not torch.equal(one.measured(2, timesteps).epsilon, one.measured(3, timesteps).epsilon)
    assert not torch.equal(one.measured(2, timesteps).epsilon, one.draw(2).epsilon)


def test_without_anything_to_learn_nothing_is_read_back(train: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Feedback, "all_gather", lambda *_: pytest.fail("figures were read back"))
    train(TimestepSampler(uniform(T)), 1)


@pytest.mark.slow
def test_two_processes_learn_the_same_as_one(prepared, network_settings, training_settings, runtime, tmp_path):
    settings = {"network": network_settings(), "training": training_settings(batch_size=6), "runtime": runtime}
    given = {name: value.model_dump(mode="json") for name, value in settings.items()}  # type: ignore[attr-defined]
    given |= {"data": str(prepared.path), "work": str(tmp_path)}
    (tmp_path / "given.json").write_text(json.dumps(given))
    program = Path(__file__).with_name("learn_in_processes.py")
    assert launch(2, [sys.executable, str(program), str(tmp_path / "given.json")]) == 0
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    alone = json.loads(json.dumps(learned_by_all(given | {"work": str(tmp_path / "alone")})))
    assert first == second
    np.testing.assert_array_equal(first["loss_second_moment"]["counts"], alone["loss_second_moment"]["counts"])
    np.testing.assert_allclose(first["loss_second_moment"]["losses"], alone["loss_second_moment"]["losses"], rtol=1e-3)
    np.testing.assert_allclose(first["adaptive"]["moments"], alone["adaptive"]["moments"], rtol=1e-3)
    assert first["info_noise"]["images"] == 36
    np.testing.assert_allclose(first["info_noise"]["sums"], alone["info_noise"]["sums"], rtol=1e-3)
