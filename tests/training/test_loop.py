"""The training loop: exact resuming, honest accumulation, and a stop that spoils nothing."""

import errno
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from torch import Tensor

from unequal.data.prepared import tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.environment import STOPS
from unequal.errors import UserError
from unequal.models.backbones.backbone import count_cost
from unequal.settings.recipe import MomentumDecay, Optimizer
from unequal.timesteps.densities import curriculum, noise_rate_target
from unequal.timesteps.information import InfoNoiseSampler
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import (
    AdaptiveSampler,
    ChangingSampler,
    EasyToHardSampler,
    LossSecondMomentSampler,
    TimestepSampler,
    uniform,
)
from unequal.training import loop, utilisation
from unequal.training.batches import Batch, BatchSource
from unequal.training.checkpoint import LOG, moments, read_checkpoint
from unequal.training.gradient_surgery import Combine, Surgery, bargained, projected
from unequal.training.loop import CHECKPOINT, Log, Trained, Trainer
from unequal.training.objectives import (
    ClusterUncertainty,
    Losses,
    Objective,
    OverRunningMean,
    OverUncertainty,
    SingleHead,
    Uncertainty,
)
from unequal.training.three_heads import BalancedHeads

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
OPTIMIZER = Optimizer(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.01, warmup_images=8, decay="cosine")
OBJECTIVE = SingleHead("epsilon", NoiseSchedule.linear(50))

Build = Callable


@pytest.fixture
def build(tmp_path, prepared, tiny_net, training_settings, runtime) -> Build:
    def make(
        work: str = "work",
        images: int = 40,
        objective: Objective = OBJECTIVE,
        log: Log = lambda figures, step: None,
        runtime_changes: dict[str, Any] | None = None,
        dropout: float = 0.0,
        optimizer: Optimizer = OPTIMIZER,
        sampler: TimestepSampler | None = None,
        heads: int = 1,
        snapshots: tuple[int, ...] = (),
        surgery: Surgery | None = None,
        **training: Any,
    ) -> Trainer:
        settings = training_settings(**training)
        sampler = sampler or TimestepSampler(uniform(50))
        source = BatchSource(tensor_of(prepared.train), settings.batch_size, sampler, 0, settings.horizontal_flips, CPU)
        chosen = runtime.model_copy(update=runtime_changes or {})
        net = tiny_net(heads=heads, dropout=dropout, block_out_channels=(8,), middle_attention=False)
        conditions = {"optimizer": optimizer, "training": settings, "runtime": chosen, "images": images}
        conditions |= {"surgery": surgery}
        return Trainer(net, source, objective, work=tmp_path / work, log=log, snapshots=snapshots, **conditions)

    return make


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return dict(trainer.net.state_dict())


def lines(folder: Path) -> list[dict[str, float]]:
    found = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("images_per_second", "mfu")} for line in found]


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
    """Assert that a killed and resumed training has the weights, states and log of one that ran through.

    `fresh` makes what remembers, anew for each trainer. Returns both trainers and both results.
    """

    def trainer(work: str, **more: Any) -> Trainer:
        return build(work, **more, **{name: make() for name, make in (fresh or {}).items()}, **chosen)

    through = trainer("through")
    trained = through.run()
    with pytest.raises(Stop):
        trainer("killed", log=stop_at(killed_at)).run()
    resumed = trainer("killed")
    assert resumed.step == (killed_at - 1) // 4 * 4
    again = resumed.run()
    tables = [
        weights(one) | one.objective.state_dict() | moments(one.optimizer, one.objective) for one in (through, resumed)
    ]
    assert tables[0].keys() == tables[1].keys()
    assert all(torch.equal(value, tables[1][name]) for name, value in tables[0].items())
    assert through.source.sampler.state_dict() == resumed.source.sampler.state_dict()
    assert lines(folder / "killed") == lines(folder / "through")
    return through, resumed, trained, again


class Changed(Objective):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, net: Any, batch: Batch) -> Losses:
        losses = OBJECTIVE(net, batch)
        return Losses(self.change(losses.weighted), losses.terms)


def broken_at(step: int, value: float = float("nan")) -> Objective:
    calls = iter(range(1000))
    return Changed(lambda losses: losses * (value if next(calls) == step else 1.0))


@pytest.fixture
def ended() -> Iterator[type[Exception]]:
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


@pytest.mark.parametrize("killed_at", [2, 5, 8])
def test_a_killed_run_ends_as_if_never_killed(build: Build, tmp_path: Path, killed_at: int) -> None:
    unusual = {"dropout": 0.2, "horizontal_flips": True, "log_every": 1}
    *_, trained = ends_as_if_never_killed(build, tmp_path, killed_at, **unusual)
    assert (trained.steps, trained.log) == (10, tmp_path / "killed" / LOG)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_decaying_momentum_and_a_curriculum_resume_exactly(build: Build, tmp_path: Path, name: str) -> None:
    decay = MomentumDecay(kind="demon", floor=0.1, lr_compensation="raise")
    plain = {"lr": 2e-3, "betas": (0.9, 0.999), "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"}
    chosen = {
        "optimizer": Optimizer(name=name, momentum_decay=decay, **plain),
        "sampler": ChangingSampler(
            curriculum(noise_rate_target(NoiseSchedule.linear(50)), ramp_images=30, uniform_share=0.1)
        ),
    }
    ends_as_if_never_killed(build, tmp_path, **chosen)
    logged = [line["momentum"] for line in lines(tmp_path / "through")]
    assert logged == sorted(logged, reverse=True)
    assert logged[0] > logged[-1] >= 0.1


def balanced() -> BalancedHeads:
    return BalancedHeads(NoiseSchedule.linear(50), Partition.of_lengths([5] * 10), budget=40, half_life=8)


def over_running_mean() -> OverRunningMean:
    bins = Partition.of_lengths([5] * 10)
    return OverRunningMean(SingleHead("epsilon", NoiseSchedule.linear(50)), bins, 8, CPU)


def over_uncertainty() -> OverUncertainty:
    schedule = NoiseSchedule.linear(50)
    return OverUncertainty(SingleHead("epsilon", schedule), Uncertainty(schedule))


def over_clusters_uncertainty() -> OverUncertainty:
    clusters = ClusterUncertainty(Partition.of_lengths([20, 30]), CPU)
    return OverUncertainty(SingleHead("epsilon", NoiseSchedule.linear(50)), clusters)


@pytest.mark.parametrize(
    ("objective", "chosen"),
    [
        (balanced, {"heads": 3}),
        (over_running_mean, {"gradient_accumulation": 2}),
        (over_uncertainty, {"gradient_accumulation": 2}),
        (over_clusters_uncertainty, {"gradient_accumulation": 2}),
    ],
)
def test_an_objective_that_remembers_resumes_exactly(build, tmp_path, objective, chosen):
    through, _, trained, again = ends_as_if_never_killed(build, tmp_path, fresh={"objective": objective}, **chosen)
    for name, table in trained.statistics.items():
        np.testing.assert_array_equal(again.statistics[name], table)
    if objective is balanced:
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


LEARNING: dict[str, Callable[[], TimestepSampler]] = {
    "loss_second_moment": partial(LossSecondMomentSampler, 50, history=1, uniform_share=0.1, unbiased=True),
    "adaptive": partial(
        AdaptiveSampler,
        Partition([(0, 9), (10, 49)]),
        refresh_images=12,
        images_per_bin=2,
        memory=0.5,
        uniform_share=0.1,
    ),
    "easy_to_hard": partial(EasyToHardSampler, Partition([(0, 9), (10, 24), (25, 49)]), 8),
    "info_noise": partial(
        InfoNoiseSampler,
        NoiseSchedule.linear(50).snr.log().numpy(),
        Partition([(0, 9), (10, 24), (25, 49)]),
        half_life=10,
        warmup_images=20,
        uniform_share=0.1,
    ),
}


@pytest.mark.thorough
def test_compiled_it_trains_the_same(build: Build) -> None:
    plain, compiled = build("plain", images=16), build("compiled", images=16, runtime_changes={"compile": True})
    plain.run()
    compiled.run()
    for name, value in weights(plain).items():
        torch.testing.assert_close(weights(compiled)[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", LEARNING)
@pytest.mark.parametrize("killed_at", [2, 6])
def test_samplers_that_learn_resume_exactly(build: Build, tmp_path: Path, kind: str, killed_at: int) -> None:
    def sampler() -> TimestepSampler:
        learning = LEARNING[kind]()
        learning.learn(np.arange(50), np.linspace(1, 2, 50))  # warm, so that what is learned shows in the draws
        return learning

    chosen = {"images": 80, "dropout": 0.2, "gradient_accumulation": 2}
    through, *_ = ends_as_if_never_killed(build, tmp_path, killed_at, {"sampler": sampler}, **chosen)
    assert through.source.sampler.state_dict() != sampler().state_dict()


@pytest.mark.parametrize(("kind", "reported"), [("info_noise", True), ("adaptive", True), ("easy_to_hard", False)])
def test_a_learned_density_is_reported_with_its_importance(build: Build, kind: str, reported: bool) -> None:
    effective_weighting = build(sampler=LEARNING[kind](), images=120).run().effective_weighting
    assert effective_weighting.keys() == ({"density", "importance"} if reported else set())
    if reported:
        assert effective_weighting["density"].sum() == pytest.approx(1)
        assert effective_weighting["density"].std() > 0
    # What is unbiased weighs each timestep by (1/T)/p_t.
    if kind == "adaptive":
        np.testing.assert_allclose(effective_weighting["density"] * effective_weighting["importance"], 1 / 50)


def test_measured_images_count_in_the_budget_and_in_the_log(build: Build, tmp_path: Path) -> None:
    """4 images are measured before steps 0, 3 and 6, in batches of 4: 7 steps take 28 + 12 images."""
    trained = build(sampler=LEARNING["adaptive"]()).run()
    assert (trained.steps, trained.images_seen) == (7, 40)
    assert [(line["step"], line["images_seen"]) for line in lines(tmp_path / "work")] == [
        (2, 12),
        (4, 24),
        (6, 32),
        (7, 40),
    ]


def test_gradients_of_one_cluster_train_as_gradients_do(build: Build, tmp_path: Path) -> None:
    plain = build("plain", gradient_accumulation=2).run()
    apart = build("apart", gradient_accumulation=2, surgery=Surgery(Partition([(0, 49)]), projected)).run()
    assert (apart.steps, apart.images_seen) == (plain.steps, plain.images_seen)
    for one, other in zip(lines(tmp_path / "plain"), lines(tmp_path / "apart"), strict=True):
        assert other == pytest.approx(one, rel=1e-3)


@pytest.mark.parametrize("combine", [projected, bargained])
def test_gradients_of_clusters_resume_exactly(build: Build, tmp_path: Path, combine: Combine) -> None:
    surgery = Surgery(Partition([(0, 19), (20, 49)]), combine)
    chosen: dict[str, Any] = {"images": 60, "surgery": surgery, "gradient_accumulation": 2}
    ends_as_if_never_killed(build, tmp_path, **chosen)


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_a_batch_in_parts_is_the_batch(build: Build, tmp_path: Path, parts: int) -> None:
    whole = build("whole", images=16)
    whole.run()
    split = build("split", images=16, gradient_accumulation=parts)
    split.run()
    for name, value in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], value, atol=2e-4, rtol=0)
    for one, other in zip(lines(tmp_path / "whole"), lines(tmp_path / "split"), strict=True):
        assert other == pytest.approx(one, rel=1e-3)


def test_the_log(build: Build, tmp_path: Path) -> None:
    figures: dict[int, dict[str, float]] = {}
    trained = build(images=18, log=lambda values, step: figures.update({step: dict(values)})).run()
    # 18 images in batches of 4 are 5 steps; lines at steps 2, 4 and the last.
    assert (trained.steps, trained.images_seen) == (5, 20)
    written = [json.loads(line) for line in (tmp_path / "work" / LOG).read_text().splitlines()]
    assert [(line["step"], line["images_seen"]) for line in written] == [(2, 8), (4, 16), (5, 20)]
    for line in written:
        assert figures[line["step"]].items() <= line.items()
        assert {"loss", "mse", "grad_norm", "lr", "images_per_second"} <= figures[line["step"]].keys()
        assert line["loss"] == pytest.approx(line["mse"])


def test_the_log_shows_the_share_of_a_known_peak(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build("unknown").run()
    monkeypatch.setattr(utilisation, "peak_flops", lambda device: 1e12)
    trainer = build("known")
    trainer.run()
    assert "mfu" not in lines(tmp_path / "unknown")[-1]
    line = json.loads((tmp_path / "known" / LOG).read_text().splitlines()[-1])
    cost = count_cost(trainer.net).macs_with_attention
    assert line["mfu"] == pytest.approx(6 * cost * line["images_per_second"] / 1e12)


def test_the_loss_falls(build: Build, tmp_path: Path) -> None:
    build(images=16 * 80, batch_size=16, log_every=20, checkpoint_every=1000).run()
    losses = [line["loss"] for line in lines(tmp_path / "work")]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(("log_every", "step", "last_good"), [(2, 6, 4), (4, 5, 4), (4, 9, 8), (1, 0, None)])
def test_a_loss_that_is_no_number(build, tmp_path, value, log_every, step, last_good):
    trainer = build(objective=broken_at(step, value), log_every=log_every)
    with pytest.raises(UserError, match=rf"NaN or infinite at step {step} \({4 * step} images\)") as caught:
        trainer.run()
    assert "\n" not in str(caught.value)
    saved = read_checkpoint(tmp_path / "work" / CHECKPOINT)
    assert (None if saved is None else saved.facts["step"]) == last_good
    if saved is not None:
        assert all(bool(torch.isfinite(tensor).all()) for tensor in saved.tensors.values())
    if (tmp_path / "work" / LOG).exists():
        assert all(line["step"] <= step for line in lines(tmp_path / "work"))


def test_a_training_resumes_before_a_loss_that_was_no_number(build, tmp_path):
    through = build("through")
    through.run()
    with pytest.raises(UserError, match="NaN or infinite at step 6"):
        build(objective=broken_at(6)).run()
    mended = build()
    assert mended.step == 4
    mended.run()
    assert all(torch.equal(value, weights(mended)[name]) for name, value in weights(through).items())
    assert lines(tmp_path / "work") == lines(tmp_path / "through")


def test_a_disk_that_fills_up_within_a_training_costs_the_steps_since_its_last_state(build, tmp_path, monkeypatch):
    through, calls, write = build("through"), iter(range(9)), loop.write_checkpoint
    through.run()

    def full_at_the_second(path, saved):
        if next(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, saved)

    monkeypatch.setattr(loop, "write_checkpoint", full_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        build().run()
    resumed = build()
    assert resumed.step == 4
    resumed.run()
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(through).items())
    assert lines(tmp_path / "work") == lines(tmp_path / "through")


def test_a_gradient_that_is_no_number(build: Build, tmp_path: Path) -> None:
    """The loss itself is a number: the square root of an exact zero has an infinite slope."""
    objective = Changed(lambda losses: losses + (losses - losses.detach()).sqrt() * 0)
    with pytest.raises(UserError, match=r"NaN or infinite at step 0 \(0 images\)"):
        build(objective=objective, gradient_clip=None).run()
    assert not (tmp_path / "work" / CHECKPOINT).exists()


def test_resuming_is_exact_with_channels_last_too(build: Build, tmp_path: Path) -> None:
    ends_as_if_never_killed(build, tmp_path, runtime_changes={"channels_last": True})


@pytest.mark.parametrize("precisions", [("fp32", "bf16"), ("bf16", "fp32")])
def test_one_process_trains_in_several_precisions(build: Build, precisions: tuple[str, str]) -> None:
    for precision in precisions:
        build(precision, precision=precision).run()
    build("alone", precision="bf16").run()
    # The first one's precision is not the second one's.
    alone = weights(build("alone", precision="bf16"))
    assert all(torch.equal(value, alone[name]) for name, value in weights(build("bf16", precision="bf16")).items())
    assert not all(torch.equal(value, alone[name]) for name, value in weights(build("fp32")).items())


def test_what_is_killed_after_the_last_step_repeats_none(build: Build, tmp_path: Path) -> None:
    finished = build(checkpoint_every=100)
    finished.run()
    again = build(checkpoint_every=100)
    assert again.step == again.steps
    before = lines(tmp_path / "work")
    again.run()
    assert lines(tmp_path / "work") == before
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(finished).items())


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("step", [1, 5])
def test_a_signalled_run_saves_first_and_resumes_exactly(build, tmp_path, ended, number, step):
    through = build("through")
    through.run()
    stopped = build("stopped", objective=signalled_at(step, number))
    with pytest.raises(ended):
        stopped.run()
    resumed = build("stopped")
    assert resumed.step == step
    resumed.run()
    assert all(torch.equal(value, weights(resumed)[name]) for name, value in weights(through).items())
    assert lines(tmp_path / "stopped") == lines(tmp_path / "through")


def test_channels_last_and_half_precision_train_much_the_same(build: Build, tmp_path: Path) -> None:
    build("plain", images=16).run()
    AcceleratorState._reset_state(reset_partial_state=True)
    trainer = build("half", images=16, precision="bf16", runtime_changes={"channels_last": True})
    assert trainer.net.conv_in.weight.is_contiguous(memory_format=torch.channels_last)
    trainer.run()
    assert all(value.dtype == torch.float32 for value in weights(trainer).values())
    for one, other in zip(lines(tmp_path / "plain"), lines(tmp_path / "half"), strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=0.02)
        assert other["loss"] != one["loss"]


@pytest.mark.parametrize("killed_at", [6, 8])
def test_stored_averages_and_snapshots_survive_a_kill(build: Build, tmp_path: Path, killed_at: int) -> None:
    # Ten steps of 4 images, a checkpoint every 4; 14 images are passed at step 4, 24 at step 6.
    chosen: dict[str, Any] = {"average": {"kind": "power", "width": 0.1, "keep": 3}, "snapshots": (14, 24)}
    through, _, trained, again = ends_as_if_never_killed(build, tmp_path, killed_at, **chosen)
    assert [one.steps for one in trained.averages] == [4, 7, 10]
    assert [(one.steps, one.images_seen) for one in trained.snapshots] == [(4, 16), (6, 24)]
    found = [*again.averages, *again.snapshots]
    for one, other in zip([*trained.averages, *trained.snapshots], found, strict=True):
        theirs = other.checkpoint().tensors
        assert all(torch.equal(value, theirs[name]) for name, value in one.checkpoint().tensors.items())
    # One of the two widths that are stored is that of the training.
    last = trained.averages[-1].checkpoint().tensors
    assert all(torch.equal(last[f"width.0.1.{name}"], value) for name, value in through.net.named_parameters())
    short = build("short", **chosen)
    for _ in range(6):
        short.advance()
    expected = short.averages.main.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in trained.snapshots[1].weights().items())


@pytest.mark.gpu
def test_a_step_does_not_wait_for_the_gpu(prepared, tiny_net, training_settings, runtime, tmp_path):
    device = torch.device("cuda")
    settings = training_settings(horizontal_flips=True, log_every=100)
    sampler = TimestepSampler(uniform(50))
    source = BatchSource(tensor_of(prepared.train), settings.batch_size, sampler, 0, True, device, prefetch=True)
    objective = SingleHead("epsilon", NoiseSchedule.linear(50).to(device))
    on_gpu = runtime.model_copy(update={"device": "cuda"})
    conditions = {"optimizer": OPTIMIZER, "training": settings, "runtime": on_gpu, "images": 80}
    trainer = Trainer(tiny_net(), source, objective, work=tmp_path, log=lambda *_: None, **conditions)
    trainer.advance()
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.advance()
        trainer.advance()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(("milestones", "resumed_at"), [({16: 0.5}, 4), ({17: 0.5, 36: 2.0}, 4), ({12: 0.5}, 0)])
def test_a_lower_rate_resumes_from_a_state_that_it_has_not_reached(
    build: Build, tmp_path: Path, milestones: dict[int, float], resumed_at: int
) -> None:
    """Without that state it gives the same; a state on the way of the old rate alone is left."""
    lowered = OPTIMIZER.model_copy(update={"lr_milestones": milestones})
    with pytest.raises(UserError, match=r"optimizer\.lr_milestones: \{16: 0\.5\} resumes from the last good state"):
        build("resumed", objective=broken_at(6)).run()
    resumed, fresh = build("resumed", optimizer=lowered), build("fresh", optimizer=lowered)
    assert (resumed.step, fresh.step) == (resumed_at, 0)
    for trainer in (resumed, fresh):
        trainer.run()
    assert all(torch.equal(value, weights(fresh)[name]) for name, value in weights(resumed).items())
    assert lines(tmp_path / "resumed") == lines(tmp_path / "fresh")
    rates = {line["step"]: line["lr"] for line in lines(tmp_path / "fresh")}
    build("plain").run()
    factors = {line["step"]: rates[line["step"]] / line["lr"] for line in lines(tmp_path / "plain")}
    # The rate of a step is that of the images before it, of which there are four a step.
    expected = {step: np.prod([f for at, f in milestones.items() if at <= 4 * (step - 1)]) for step in factors}
    assert factors == pytest.approx(expected)


def test_what_may_help_against_nan_is_what_is_not_set_already(build: Build) -> None:
    for clip, said in ((None, r"or set training\.gradient_clip"), (0.5, r"or lower training\.gradient_clip \(0\.5\)")):
        with pytest.raises(UserError, match=rf"lower optimizer\.lr \(0\.002\) {said}"):
            build(f"clip {clip}", objective=broken_at(0), gradient_clip=clip, log_every=1).run()


SPOILED = {
    "a digit": lambda log: log.replace(b'"step": 2,', b'"step": 3,'),
    "no line": lambda log: b"",
    "half a line more": lambda log: log + b'{"step": 5, "lo',
    "zeros, as after a power cut": lambda log: b"\x00" * len(log),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_the_log_is_part_of_the_saved_state(build: Build, tmp_path: Path, ended: type[Exception], spoiled: str) -> None:
    with pytest.raises(ended):
        build(objective=signalled_at(5, signal.SIGTERM), log_every=2).run()
    log = tmp_path / "work" / LOG
    whole = log.read_bytes()
    assert [json.loads(line)["step"] for line in whole.splitlines()] == [2, 4]
    log.write_bytes(SPOILED[spoiled](whole))
    assert log.read_bytes() != whole
    build(log_every=2).run()
    assert log.read_bytes().startswith(whole)
    assert [line["step"] for line in lines(tmp_path / "work")] == [2, 4, 6, 8, 10]
