"""The training loop: honest accumulation, what it logs, and refusals of what is no number."""

import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from small_trainer import LEARNING, Changed, broken_at, lines, same_weights

from unequal.errors import UserError
from unequal.models.backbones.backbone import count_cost
from unequal.training import accelerator
from unequal.training.checkpoint import LOG, read_checkpoint
from unequal.training.loop import CHECKPOINT
from unequal.training.objectives import SingleHead

pytestmark = pytest.mark.slow

Build = Callable


@pytest.mark.thorough
def test_compiled_it_trains_the_same(build):
    plain, compiled = build("plain", images=16), build("compiled", images=16, runtime_changes={"compile": True})
    plain.run()
    compiled.run()
    torch.testing.assert_close(compiled.net.state_dict(), plain.net.state_dict(), rtol=1e-3, atol=1e-4)


def test_no_step_after_the_first_compiles_again(build, monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # traced as always, quicker
    trainer = build("compiled", gradient_accumulation=3, runtime_changes={"compile": True})
    trainer.advance()  # parts of different sizes
    with torch.compiler.set_stance("fail_on_recompile"):
        trainer.advance()
        trainer.advance()


@pytest.mark.parametrize(("kind", "reported"), [("info_noise", True), ("adaptive", True), ("easy_to_hard", False)])
def test_a_learned_density_is_reported_with_its_importance(build, kind, reported):
    effective_weighting = build(sampler=LEARNING[kind](), images=60).run().effective_weighting
    assert effective_weighting.keys() == ({"density", "importance"} if reported else set())
    if reported:
        assert effective_weighting["density"].sum() == pytest.approx(1)
        assert effective_weighting["density"].std() > 0
    # What is unbiased weighs each timestep by (1/T)/p_t.
    if kind == "adaptive":
        np.testing.assert_allclose(effective_weighting["density"] * effective_weighting["importance"], 1 / 50)


def test_measured_images_count_in_the_budget_and_in_the_log(build, tmp_path):
    """4 images are measured before steps 0, 3 and 6, in batches of 4: 7 steps take 28 + 12 images."""
    trained = build(sampler=LEARNING["adaptive"]()).run()
    assert (trained.steps, trained.images_seen) == (7, 40)
    logged = [(line["step"], line["images_seen"]) for line in lines(tmp_path / "work")]
    assert logged == [(2, 12), (4, 24), (6, 32), (7, 40)]


def test_a_batch_in_parts_is_the_batch(build, tmp_path):
    whole = build("whole", images=16)
    whole.run()
    split = build("split", images=16, gradient_accumulation=3)
    split.run()
    torch.testing.assert_close(split.net.state_dict(), whole.net.state_dict(), atol=2e-4, rtol=0)
    for one, other in zip(lines(tmp_path / "whole"), lines(tmp_path / "split"), strict=True):
        assert other == pytest.approx(one, rel=1e-3)


def test_the_log(build, tmp_path):
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


def test_the_log_shows_the_share_of_a_known_peak(build, tmp_path, monkeypatch):
    build("unknown").run()
    monkeypatch.setattr(accelerator, "peak_flops", lambda device: 1e12)
    trainer = build("known")
    trainer.run()
    assert "mfu" not in lines(tmp_path / "unknown")[-1]
    line = json.loads((tmp_path / "known" / LOG).read_text().splitlines()[-1])
    cost = count_cost(trainer.net).macs_with_attention
    assert line["mfu"] == pytest.approx(6 * cost * line["images_per_second"] / 1e12)


@pytest.mark.parametrize(
    ("log_every", "step", "value", "last_good"),
    [(4, 9, "nan", 8), (1, 0, "inf", None)],
)
def test_a_loss_that_is_no_number(build, tmp_path, log_every, step, value, last_good):
    trainer = build(objective=broken_at(step, float(value)), log_every=log_every)
    with pytest.raises(UserError, match=rf"NaN or infinite at step {step} \({4 * step} images\)") as caught:
        trainer.run()
    assert "\n" not in str(caught.value)
    saved = read_checkpoint(tmp_path / "work" / CHECKPOINT)
    assert (None if saved is None else saved.facts["step"]) == last_good
    if saved is not None:
        assert all(bool(torch.isfinite(tensor).all()) for tensor in saved.tensors.values())
    if (tmp_path / "work" / LOG).exists():
        assert all(line["step"] <= step for line in lines(tmp_path / "work"))


def test_a_gradient_that_is_no_number(build, tmp_path):
    """The loss itself is a number: the square root of an exact zero has an infinite slope."""
    objective = Changed(lambda losses: losses + (losses - losses.detach()).sqrt() * 0)
    with pytest.raises(UserError, match=r"NaN or infinite at step 0 \(0 images\)"):
        build(objective=objective, gradient_clip=None).run()
    assert not (tmp_path / "work" / CHECKPOINT).exists()


@pytest.mark.parametrize("precisions", [("fp32", "bf16"), ("bf16", "fp32")])
def test_one_process_trains_in_several_precisions(build, precisions):
    for precision in precisions:
        build(precision, images=12, precision=precision).run()
    build("alone", images=12, precision="bf16").run()
    # The first one's precision is not the second one's.
    chosen = {"alone": "bf16", "bf16": "bf16", "fp32": "fp32"}
    alone, found, other = (build(name, images=12, precision=one) for name, one in chosen.items())
    assert same_weights(alone, found) and not same_weights(alone, other)


def test_channels_last_and_half_precision_train_much_the_same(build, tmp_path):
    build("plain", images=16).run()
    AcceleratorState._reset_state(reset_partial_state=True)
    trainer = build("half", images=16, precision="bf16", runtime_changes={"channels_last": True})
    assert trainer.net.conv_in.weight.is_contiguous(memory_format=torch.channels_last)
    trainer.run()
    assert all(value.dtype == torch.float32 for value in trainer.net.state_dict().values())
    for one, other in zip(lines(tmp_path / "plain"), lines(tmp_path / "half"), strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=0.02)
        assert other["loss"] != one["loss"]


@pytest.mark.gpu
@pytest.mark.parametrize("sampler", [None, "loss_second_moment", "info_noise"])
def test_a_step_does_not_wait_for_the_gpu(build, sampler):
    device = torch.device("cuda")
    chosen = {"runtime_changes": {"device": "cuda"}, "horizontal_flips": True, "log_every": 100, "images": 80}
    chosen["objective"] = SingleHead()
    chosen["sampler"] = None if sampler is None else LEARNING[sampler]()
    trainer = build(device=device, **chosen)
    trainer.advance()
    trainer.advance()
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.advance()
        trainer.advance()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_passes_that_are_replayed_from_graphs_train_as_others(build):
    device, weights = torch.device("cuda"), []
    for graphs in (False, True):
        changes = {"device": "cuda", "compile": True, "cuda_graphs": graphs}
        objective = SingleHead()
        trainer = build(f"graphs {graphs}", device=device, runtime_changes=changes, objective=objective, dropout=0.1)
        assert trainer.graphs is graphs
        weights.append(trainer.run() and [one.cpu() for one in trainer.net.state_dict().values()])
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-5, atol=1e-6)
