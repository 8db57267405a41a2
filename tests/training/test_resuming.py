"""Whatever ends a training, it resumes exactly: weights, moments, samplers, objectives and log."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from one_line import refusal
from small_trainer import CPU, LEARNING, OPTIMIZER, SCHEDULE, Changed, broken_at, lines, same_weights
from tensors import equal
from torch import Tensor

from unequal.errors import UserError
from unequal.runtime.environment import STOPS, Stopped
from unequal.runtime.processes import stop_line
from unequal.settings.recipe import MomentumDecay, Optimizer
from unequal.timesteps.densities import curriculum, noise_rate_target
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import ChangingSampler, TimestepSampler
from unequal.training import checkpoint
from unequal.training.checkpoint import LOG, Trained
from unequal.training.loop import Log, Trainer
from unequal.training.objectives import (
    Objective,
    OverRunningMean,
    OverUncertainty,
    SingleHead,
    Uncertainty,
)
from unequal.training.optimizer import OPTIMIZERS, moments
from unequal.training.three_heads import BalancedHeads

pytestmark = pytest.mark.slow

Build = Callable


class Stop(Exception):
    """The process is ended from outside."""


def stop_at(step: int) -> Log:
    def log(figures: dict[str, float], now: int) -> None:
        if now == step:
            raise Stop

    return log


def ends_as_if_never_killed(
    build: Build, folder: Path, killed_at: int = 6, fresh: dict[str, Callable[[], Any]] | None = None, **chosen: Any
) -> tuple[Trainer, Trainer, Trained, Trained]:
    """Assert that a killed and resumed training has the weights, states and log of one that ran through, whose
    trainer and result are returned with those of the other; `fresh` makes what remembers, anew for each trainer."""

    def trainer(work: str, **more: Any) -> Trainer:
        return build(work, **more, **{name: make() for name, make in (fresh or {}).items()}, **chosen)

    through = trainer("through")
    trained = through.run()
    with pytest.raises(Stop):
        trainer("killed", log=stop_at(killed_at)).run()
    resumed = trainer("killed")
    assert resumed.step == (killed_at - 1) // 4 * 4
    again = resumed.run()
    assert same_weights(through, resumed)
    assert equal(through.objective.state_dict(), resumed.objective.state_dict())
    assert equal(*(moments(one.optimizer, one.objective) for one in (through, resumed)))
    assert through.source.sampler.state_dict() == resumed.source.sampler.state_dict()
    assert lines(folder / "killed") == lines(folder / "through")
    return through, resumed, trained, again


@pytest.fixture
def ended():
    def end(*_: object) -> None:
        raise Stop

    before = {one: signal.signal(one, end) for one in STOPS}
    yield Stop
    for one, handler in before.items():
        signal.signal(one, handler)


def signalled_at(step: int, number: int) -> Objective:
    calls = iter(range(1, 1000))

    def signal_process(losses: Tensor) -> Tensor:
        if next(calls) == step:
            os.kill(os.getpid(), number)
        return losses

    return Changed(signal_process)


@pytest.mark.parametrize(("killed_at", "unusual"), [(2, {}), (5, {"runtime_changes": {"channels_last": True}})])
def test_a_killed_run_ends_as_if_never_killed(build, tmp_path, killed_at, unusual):
    unusual = unusual | {"dropout": 0.2, "horizontal_flips": True, "log_every": 1}
    *_, trained = ends_as_if_never_killed(build, tmp_path, killed_at, **unusual)
    assert (trained.steps, trained.log) == (10, tmp_path / "killed" / LOG)


def test_decaying_momentum_and_a_curriculum_resume_exactly(build, tmp_path):
    decay = MomentumDecay(kind="demon", floor=0.1, lr_compensation="raise")
    plain = {"lr": 2e-3, "betas": (0.9, 0.999), "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"}
    rising = ChangingSampler(curriculum(noise_rate_target(SCHEDULE), ramp_images=30, uniform_share=0.1))
    optimizer = Optimizer(name="sgd", momentum_decay=decay, **plain)
    ends_as_if_never_killed(build, tmp_path, optimizer=optimizer, sampler=rising)
    logged = [line["momentum"] for line in lines(tmp_path / "through")]
    assert logged == sorted(logged, reverse=True)
    assert logged[0] > logged[-1] >= 0.1


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "adamw"])
def test_every_optimizer_resumes_exactly_with_what_its_objective_learns(build, tmp_path, name):
    optimizer = Optimizer(name=name, lr=2e-3, betas=(0.9, 0.999), weight_decay=0.01, warmup_images=8, decay="constant")
    fresh = {"objective": REMEMBERING["over uncertainty"]}
    through, resumed, *_ = ends_as_if_never_killed(build, tmp_path, fresh=fresh, optimizer=optimizer)
    assert equal(*(moments(one.optimizer, one.net) for one in (through, resumed)))


TENTHS = Partition.of_lengths([5] * 10)
REMEMBERING: dict[str, Callable[[], Objective]] = {
    "balanced": lambda: BalancedHeads(TENTHS, budget=40, half_life=8),
    "over running mean": lambda: OverRunningMean(SingleHead(), TENTHS, 8, CPU),
    "over uncertainty": lambda: OverUncertainty(SingleHead(), Uncertainty(SCHEDULE)),
}


@pytest.mark.parametrize("kind", REMEMBERING)
def test_an_objective_that_remembers_resumes_exactly(build, tmp_path, kind):
    chosen = {"heads": 3} if kind == "balanced" else {"gradient_accumulation": 2}
    fresh = {"objective": REMEMBERING[kind]}
    through, _, trained, again = ends_as_if_never_killed(build, tmp_path, fresh=fresh, **chosen)
    for name, table in trained.statistics.items():
        np.testing.assert_array_equal(again.statistics[name], table)
    if kind == "balanced":
        assert trained.statistics["images"].sum() == 40
    if isinstance(through.objective, OverUncertainty):
        assert trained.learned["uncertainty.weight"].abs().min() > 0
        assert moments(through.optimizer, through.objective).keys() == {
            f"uncertainty.weight.{name}" for name in ("step", "exp_avg", "exp_avg_sq")
        }
        assert {"loss", "mse", "uncertain"} <= lines(tmp_path / "through")[0].keys()
        u = through.objective.uncertainty.at(torch.arange(50)).detach().numpy()
        np.testing.assert_allclose(trained.effective_weighting["factors"] * np.exp(u), 1, rtol=1e-6)
        assert "density" not in trained.effective_weighting


@pytest.mark.parametrize("kind", LEARNING)
def test_samplers_that_learn_resume_exactly(build, tmp_path, kind):
    def sampler() -> TimestepSampler:
        learning = LEARNING[kind]()
        learning.learn(np.arange(50), np.linspace(1, 2, 50))  # warm, so that what is learned shows in the draws
        return learning

    chosen = {"images": 60, "dropout": 0.2, "gradient_accumulation": 2}
    through, *_ = ends_as_if_never_killed(build, tmp_path, fresh={"sampler": sampler}, **chosen)
    assert through.source.sampler.state_dict() != sampler().state_dict()


def test_what_is_killed_after_the_last_step_repeats_none(build, tmp_path):
    finished = build(checkpoint_every=100)
    finished.run()
    before, again = lines(tmp_path / "work"), build(checkpoint_every=100)
    assert again.step == again.steps
    again.run()
    assert lines(tmp_path / "work") == before
    assert same_weights(finished, again)


def test_the_clock_makes_states_due_too_and_changes_no_weights(build, tmp_path, monkeypatch):
    through = build("through")
    through.run()
    write, steps = checkpoint.write_checkpoint, []

    def noted(path, saved):
        steps.append(saved.facts["step"])
        write(path, saved)

    monkeypatch.setattr(checkpoint, "write_checkpoint", noted)
    trainer = build(checkpoint_every=100, runtime_changes={"checkpoint_seconds": 1e-9})
    trainer.run()
    assert steps == [*range(1, trainer.steps + 1)]
    assert same_weights(trainer, through)


@pytest.mark.parametrize(("number", "step"), [(signal.SIGTERM, 1), (signal.SIGINT, 5), (signal.SIGHUP, 5)])
def test_a_signalled_run_saves_first_and_resumes_exactly(build, tmp_path, ended, number, step):
    with pytest.raises(ended):
        build("interrupted", objective=signalled_at(step, number)).run()
    through, resumed = build("through"), build("interrupted")
    assert (through.step, resumed.step) == (0, step)
    assert stop_line() == f"stopped at step {step} of {through.steps}; the same command goes on"
    for trainer in (through, resumed):
        trainer.run()
    assert same_weights(through, resumed)
    assert lines(tmp_path / "interrupted") == lines(tmp_path / "through")


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored by a shell", "without effect"])
def test_a_signal_that_does_not_end_the_process_leaves_no_short_training(build, tmp_path, handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        if handler is signal.SIG_IGN:
            assert build(objective=signalled_at(5, signal.SIGINT)).run().images_seen == 40
            return
        with pytest.raises(Stopped):
            build(objective=signalled_at(5, signal.SIGINT)).run()
        assert build().run().images_seen == 40
    finally:
        signal.signal(signal.SIGINT, before)


STORING: dict[str, Any] = {"average": {"kind": "power", "width": 0.1, "keep": 3}, "snapshots": (14, 24)}


def test_stored_averages_and_snapshots_survive_a_kill(build, tmp_path):
    # Ten steps of 4 images, a checkpoint every 4; 14 images are passed at step 4, 24 at step 6.
    through, _, trained, again = ends_as_if_never_killed(build, tmp_path, killed_at=8, **STORING)
    assert [one.steps for one in trained.averages] == [4, 7, 10]
    assert [(one.steps, one.images_seen) for one in trained.snapshots] == [(4, 16), (6, 24)]
    found = [*again.averages, *again.snapshots]
    for one, other in zip([*trained.averages, *trained.snapshots], found, strict=True):
        assert equal(one.checkpoint().tensors, other.checkpoint().tensors)
    # One of the two widths that are stored is that of the training.
    last = trained.averages[-1].checkpoint().tensors
    assert all(torch.equal(last[f"width.0.1.{name}"], value) for name, value in through.net.named_parameters())
    short = build("short", **STORING)
    for _ in range(6):
        short.advance()
    assert equal(trained.snapshots[1].weights(), short.averages.main.state_dict())


def test_a_training_whose_snapshot_is_gone_is_refused_before_it_goes_on(build, tmp_path):
    build(**STORING).run()
    for name in ("averages-7", "snapshot-4"):
        file = tmp_path / "work" / f"{name}.safetensors"
        content = file.read_bytes()
        file.unlink()
        said = f"{file}: gone since it was saved; put it back, or delete {tmp_path / 'work'} to start again"
        assert refusal(build, **STORING) == said
        file.write_bytes(content)


@pytest.mark.parametrize(("milestones", "resumed_at"), [({16: 0.5, 36: 2.0}, 4), ({12: 0.5}, 0)])
def test_a_lower_rate_resumes_from_a_state_that_it_has_not_reached(build, tmp_path, milestones, resumed_at):
    """Without that state it gives the same; a state on the way of the old rate alone is left."""
    lowered = OPTIMIZER.model_copy(update={"lr_milestones": milestones})
    with pytest.raises(UserError, match=r"optimizer\.lr_milestones: \{16: 0\.5\} resumes from the last good state"):
        build("resumed", objective=broken_at(6)).run()
    resumed, fresh = build("resumed", optimizer=lowered), build("fresh", optimizer=lowered)
    assert (resumed.step, fresh.step) == (resumed_at, 0)
    for trainer in (resumed, fresh):
        trainer.run()
    assert same_weights(resumed, fresh)
    assert lines(tmp_path / "resumed") == lines(tmp_path / "fresh")
    rates = {line["step"]: line["lr"] for line in lines(tmp_path / "fresh")}
    build("plain").run()
    factors = {line["step"]: rates[line["step"]] / line["lr"] for line in lines(tmp_path / "plain")}
    # The rate of a step is that of the images before it, of which there are four a step.
    expected = {step: np.prod([f for at, f in milestones.items() if at <= 4 * (step - 1)]) for step in factors}
    assert factors == pytest.approx(expected)


def test_the_log_is_part_of_the_saved_state(build, tmp_path, ended):
    with pytest.raises(ended):
        build(objective=signalled_at(5, signal.SIGTERM), log_every=2).run()
    log = tmp_path / "work" / LOG
    whole = log.read_bytes()
    assert [json.loads(line)["step"] for line in whole.splitlines()] == [2, 4]
    log.write_bytes(whole.replace(b'"step": 2,', b'"step": 3,') + b'{"step": 5, "lo')
    build(log_every=2).run()
    assert log.read_bytes().startswith(whole)
    assert [line["step"] for line in lines(tmp_path / "work")] == [2, 4, 6, 8, 10]
