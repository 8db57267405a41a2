"""Timesteps in any loop: as this project's own batches, resumed, in processes, and learned from."""

import json
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch
from one_line import refusal
from torch import distributed

from unequal.timesteps.batches import DELAY, Timesteps
from unequal.timesteps.draws import LowDiscrepancy
from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler, LossSecondMomentSampler
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import (
    TimestepSampler,
    tilt,
)
from unequal.training.batches import BatchSource

T = 20
PROBABILITIES = tilt(T, 2.0) / tilt(T, 2.0).sum()


SAMPLERS: dict[str, Callable[[], TimestepSampler]] = {
    "weighted": lambda: TimestepSampler(PROBABILITIES, True),
    "spread": lambda: TimestepSampler(PROBABILITIES, draw=LowDiscrepancy()),
    "learning": lambda: LossSecondMomentSampler(T, history=1, uniform_share=0.1, unbiased=True),
    "in stages": lambda: EasyToHardSampler(Partition.of_lengths([5] * 4), patience_images=16),
}
learning = SAMPLERS["learning"]


def loss_of(timesteps: torch.Tensor) -> torch.Tensor:
    return (timesteps + 1.0).square()


def course(timesteps: Timesteps, steps: int, batch_size: int = 8) -> list[tuple[list[int], list[float]]]:
    found = []
    for _ in range(steps):
        t, weights = timesteps.draw(batch_size)
        timesteps.learn(loss_of(t))
        found.append((t.tolist(), weights.tolist()))
    return found


def test_draws_are_those_of_this_projects_own_batches():
    own = BatchSource(torch.zeros(1, 1), 8, SAMPLERS["weighted"](), 3, False, torch.device("cpu"))
    timesteps = Timesteps(SAMPLERS["weighted"](), seed=3)
    timesteps.learn(torch.ones(()))  # a sampler that learns nothing takes any losses
    for step in range(3):
        expected, drawn = own.timesteps(step), timesteps.draw(8)
        assert drawn.timesteps.tolist() == expected.timesteps.tolist()
        assert drawn.weights.tolist() == pytest.approx(expected.weights)
        assert (drawn.timesteps.dtype, drawn.weights.dtype) == (torch.int64, torch.float32)


def test_loss_weights_multiply_those_of_the_sampler():
    table = np.linspace(1, 3, T)
    plain, weighted = Timesteps(SAMPLERS["weighted"]()), Timesteps(SAMPLERS["weighted"](), loss_weights=table)
    (t, before), (same, after) = plain.draw(64), weighted.draw(64)
    assert torch.equal(t, same)
    assert after.numpy() == pytest.approx(before.numpy() * table[t.numpy()], rel=1e-6)


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("stop", [1, 7])
def test_a_resumed_loop_draws_what_an_uninterrupted_one_draws(kind, stop):
    whole = course(Timesteps(SAMPLERS[kind]()), 12)
    first = Timesteps(SAMPLERS[kind]())
    before = course(first, stop)
    state = json.loads(json.dumps(first.state_dict()))
    second = Timesteps(SAMPLERS[kind]())
    second.load_state_dict(state)
    assert before + course(second, 12 - stop) == whole


def test_losses_count_from_the_second_draw_after_theirs():
    timesteps, learned = Timesteps(learning()), []
    timesteps.sampler.learn = lambda t, losses: learned.append((t.tolist(), losses.tolist()))  # type: ignore[method-assign]
    drawn = course(timesteps, 1 + DELAY, batch_size=4)
    assert learned == [(drawn[0][0], loss_of(torch.tensor(drawn[0][0])).tolist())]


def test_what_is_learned_is_drawn_by():
    timesteps = Timesteps(learning())
    course(timesteps, 60)
    expected = 0.1 / T + 0.9 * (np.arange(T) + 1.0) ** 2 / ((np.arange(T) + 1.0) ** 2).sum()
    assert timesteps.sampler.probabilities == pytest.approx(expected)


def in_a_process(kind: str, rank: int, processes: int, store: Path, answer: Connection) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=processes)
    answer.send(course(Timesteps(SAMPLERS[kind]()), 12, batch_size=8 // processes))
    distributed.destroy_process_group()


@pytest.mark.parametrize("kind", ["weighted", "learning"])
def test_processes_share_the_batches_of_one(kind, tmp_path):
    context = get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    parts = [(kind, rank, 2, tmp_path / "store", sender) for rank, (_, sender) in enumerate(pipes)]
    started = [context.Process(target=in_a_process, args=part) for part in parts]
    for process in started:
        process.start()
    found = [receiver.recv() for receiver, _ in pipes]
    for process in started:
        process.join()
    together = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(*found, strict=True)]
    assert together == course(Timesteps(SAMPLERS[kind]()), 12)


def test_misuse_is_refused_in_one_line():
    timesteps, drawn = Timesteps(learning()), Timesteps(learning())
    drawn.draw(4)
    bins = Partition.of_lengths([10, 10])
    adaptive = AdaptiveSampler(bins, refresh_images=8, images_per_bin=1, memory=0.5, uniform_share=0.1)
    for call, said in (
        (lambda: timesteps.learn(torch.ones(4)), "learn: there is no batch whose losses are unknown"),
        (lambda: drawn.learn(torch.ones(4).mean()), "learn: losses of shape []; allowed: one for each timestep"),
        (
            lambda: Timesteps(learning(), seed=1).load_state_dict(timesteps.state_dict()),
            "the state is that of draws with seed 0; allowed: seed 1",
        ),
        (lambda: Timesteps(learning(), loss_weights=[1.0, 2.0]), "loss weights of shape [2] for 20 timesteps; allow"),
        (lambda: Timesteps(adaptive), "AdaptiveSampler measures gradients of single images"),
    ):
        assert refusal(call).startswith(said)


@pytest.mark.gpu
def test_a_gpu_is_never_waited_for_and_draws_are_those_of_a_cpu():
    timesteps, found = Timesteps(learning()), []
    timesteps.draw(8, "cuda")  # what a first call sets up
    timesteps = Timesteps(learning())
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(12):
            t, weights = timesteps.draw(8, "cuda")
            timesteps.learn(loss_of(t))
            found.append((t, weights))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [(t.tolist(), w.tolist()) for t, w in found] == course(Timesteps(learning()), 12)
