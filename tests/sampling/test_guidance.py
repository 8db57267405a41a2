"""Guidance computes ∅ + w·(y − ∅) where it should, and is refused where nothing was learned for it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specs import class_labels, dropped_labels, spec_of
from torch import Tensor

from unequal.errors import UserError
from unequal.models.denoiser import Denoiser
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.sampling.guidance import GuidedDenoiser, guided, guided_answer
from unequal.settings.condition import AnyCondition
from unequal.settings.evaluation import Guidance

BuildDiT = Callable
LABELS = dropped_labels(2)


def noisy(channels: int = 1) -> tuple[Tensor, Tensor]:
    return torch.randn(4, channels, 8, 8, generator=torch.Generator().manual_seed(2)), torch.tensor([0, 9, 30, 49])


def denoiser(tiny_dit: BuildDiT, condition: AnyCondition = LABELS, **changes: Any) -> Denoiser:
    spec = spec_of(condition=condition, **{name: value for name, value in changes.items() if name != "depth"})
    return Denoiser.of(tiny_dit(condition=condition, **changes), spec)


@pytest.mark.parametrize("kind", [{}, {"prediction": "velocity", "schedule": "flow", "shift": 3.0}], ids=["ε", "flow"])
def test_the_guided_noise_is_that_of_the_formula(tiny_dit, kind):
    plain, (x, t), y = denoiser(tiny_dit, **kind), noisy(), torch.tensor([0, 1, 1, 0])
    labelled, free = (plain.conditioned(labels).epsilon(x, t) for labels in (y, torch.full_like(y, 2)))
    assert float((labelled - free).abs().mean()) > 0.01
    for scale in (1.0, 4.0, 0.5):
        found = GuidedDenoiser(plain, Guidance(scale=scale, channels=None)).conditioned(y).epsilon(x, t)
        assert torch.allclose(found, free + scale * (labelled - free), atol=1e-5)
    assert GuidedDenoiser(plain.accelerated("bf16"), Guidance(scale=2.0)).precision == "bf16"


def test_by_default_three_channels_are_guided_and_never_the_variance(tiny_dit):
    plain = denoiser(tiny_dit, channels=4, variance="learned")
    (x, t), y = noisy(4), torch.tensor([0, 1, 1, 0])
    with torch.no_grad():
        labelled, free = (plain.conditioned(labels).whole_answer(x, t) for labels in (y, torch.full_like(y, 2)))
        three = GuidedDenoiser(plain, Guidance(scale=3.0)).conditioned(y).whole_answer(x, t)
        four = GuidedDenoiser(plain, Guidance(scale=3.0, channels=None)).conditioned(y).whole_answer(x, t)
    expected = free + 3 * (labelled - free)
    assert torch.allclose(three[:, :3], expected[:, :3], atol=1e-5)
    assert torch.allclose(three[:, 3:], labelled[:, 3:], atol=1e-5)
    assert torch.allclose(four[:, :4], expected[:, :4], atol=1e-5)
    assert torch.allclose(four[:, 4:], labelled[:, 4:], atol=1e-5)


def test_each_of_several_heads_is_guided():
    labelled, free = torch.arange(1.0, 7.0).reshape(1, 6, 1, 1), torch.zeros(1, 6, 1, 1)
    found = guided_answer(labelled, free, Guidance(scale=2.0, channels=1), channels=2, heads=3)
    assert found.flatten().tolist() == [2, 2, 6, 4, 10, 6]


def test_experts_are_guided_one_by_one_and_a_step_counts_twice(tiny_dit, make_record):
    one, other = denoiser(tiny_dit, depth=1), denoiser(tiny_dit, depth=3)
    experts = [
        Expert(part, make_record(part.net, condition=LABELS, first=first, last=last))
        for part, first, last in ((one, 0, 24), (other, 25, 49))
    ]
    plain, y = Ensemble(experts), torch.tensor([0, 1])
    led = guided(plain, Guidance(scale=2.0))
    assert led.macs_per_image([40, 20]) == 2 * plain.macs_per_image([40, 20])
    assert led.steps_per_expert([40, 30, 20]) == plain.steps_per_expert([40, 30, 20])
    assert guided(plain, None) is plain
    x, _ = noisy()
    for t, part in ((40, other), (20, one)):
        now = torch.full((2,), t)
        expected = GuidedDenoiser(part, Guidance(scale=2.0)).conditioned(y).x0(x[:2], now)
        assert torch.equal(led.predictor(False, y)(x[:2], t), expected)
    by_label = led.sample(2, [40, 20, 5], labels=y)
    assert by_label.shape == (2, 1, 8, 8)
    assert not torch.equal(by_label, plain.sample(2, [40, 20, 5], labels=y))


def test_a_model_that_always_saw_labels_is_not_guided(tiny_dit):
    with pytest.raises(UserError, match="a model of 2 classes has learned no answer without a label"):
        GuidedDenoiser(denoiser(tiny_dit, class_labels(2)), Guidance(scale=2.0))
