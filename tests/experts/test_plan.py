"""A plan carried out: groups within their limits, from the base or from scratch, and going on where it was stopped."""

from typing import Any

import numpy as np
import pytest
import small_inputs
from here import Here
from one_line import refusal

from unequal.experts import plan as plans
from unequal.experts.bank import read_bank
from unequal.experts.plan import ExpertsJob, carry_out, totals
from unequal.models.backbones.backbone import count_cost
from unequal.models.folder import load_record, load_removals, save_model
from unequal.models.pruned import load_any_model
from unequal.sampling.ensemble import Ensemble
from unequal.settings.groups import Plan

pytestmark = pytest.mark.slow

T = 50
RECIPE = small_inputs.RECIPE | {"sampler": {"density": "slot"}}
TAYLOR = {"method": "taylor", "timesteps": "group", "images": 4}
PROXY = small_inputs.PROXY | {"ranking": TAYLOR, "start": [{"method": "magnitude"}]}
SNR = {"kind": "snr", "count": 2, "min_ratio": 0.5}
WHOLE = {"kind": "whole", "ratio": 0.7}


def plan(**choices: Any) -> Plan:
    facts = {"groups": SNR, "pruning": TAYLOR, "start": "base", "recipe": RECIPE} | choices
    return Plan.model_validate(facts, strict=False)


@pytest.fixture
def base(tmp_path, tiny_net, make_record):
    net = tiny_net()
    record = make_record(net, name="base", images_seen=8000, training_flops=24000 * count_cost(net).macs)
    save_model(tmp_path / "base", net, record)
    return tmp_path / "base"


@pytest.fixture
def make(base, prepared, training_settings):
    def build(excess: np.ndarray | None = None, **choices: Any) -> ExpertsJob:
        return ExpertsJob(plan(**choices), "study/plan/seed_3", base, prepared, training_settings(), 3, excess)

    return build


@pytest.fixture
def place(tmp_path, runtime):
    return Here(tmp_path, runtime)


@pytest.mark.parametrize("pruning", [TAYLOR, PROXY], ids=lambda one: one["method"])
def test_every_group_gets_a_model_within_its_limit(pruning, make, place, base):
    whole = load_record(base)
    models, figures = carry_out(place, make(pruning=pruning))
    assert [(one["group"], one["first"]) for one in figures] == [(0, 0), (1, figures[0]["last"] + 1)]
    assert figures[1]["last"] == T - 1
    # F_u(i) = ((N − i − 1)/N·k + (i + 1)/N)·F with N = 2 and k = ½.
    assert [one["limit_ratio"] for one in figures] == [0.75, 1.0]
    for model, one in zip(models, figures, strict=True):
        net, record = load_any_model(model)
        assert one["macs"] == record.macs == count_cost(net).macs <= one["limit_ratio"] * whole.macs
        assert record.macs >= 0.97 * one["limit_ratio"] * whole.macs
        assert (record.first, record.last, record.groups) == (one["first"], one["last"], 2)
        assert (record.images_seen, record.inherited_images) == (16, 8000)
        assert load_removals(model) is not None
    if pruning is PROXY:  # a memory bank lies with the model
        candidates = read_bank(models[0] / "memory_bank.jsonl")
        assert [one.loss for one in candidates] == [one["loss"] for one in figures[0]["pruning"]["bank"]]
        assert len(candidates) == 3
        # The last group may keep everything: nothing is decided.
        assert not (models[1] / "memory_bank.jsonl").exists()


def test_one_group_of_all_timesteps_keeps_its_share(make, place, base):
    (model,), (figures,) = carry_out(place, make(groups=WHOLE))
    assert (figures["first"], figures["last"]) == (0, T - 1)
    assert 0.97 * 0.7 <= figures["macs"] / load_record(base).macs <= 0.7
    assert Ensemble.load(model).record.groups == 1


def test_groups_of_equal_excess_take_the_measured_loss(make, place):
    excess = np.repeat([3.0, 1.0], [10, 40])  # sums 30 and 40: half of 70 is reached within t = 15
    groups = {"kind": "excess_loss", "count": 2, "min_ratio": 0.5}
    _, figures = carry_out(place, make(excess, groups=groups, pruning=None))
    assert [(one["first"], one["last"]) for one in figures] == [(0, 14), (15, T - 1)]
    assert [one["limit_ratio"] for one in figures] == [1.0, 0.75]


@pytest.mark.thorough
def test_from_scratch_nothing_of_the_base_is_left(make, place, base):
    models, figures = carry_out(place, make(start="scratch"))
    pruned = [load_any_model(place.work / f"group_{i}" / "pruned")[0] for i in range(2)]
    for model, before in zip(models, pruned, strict=True):
        net, record = load_any_model(model)
        assert (record.parent, record.inherited_images, record.inherited_flops) == (None, 0, 0)
        # Sixteen images move fresh weights, but not on those of the base.
        first, second = net.conv_in.weight, before.conv_in.weight
        assert first.shape == second.shape
        assert float((first - second).abs().mean()) > 0.05
    assert totals(figures)["images"] == 32


def test_from_scratch_at_equal_compute(make, place, base):
    """Each group has its recipe's images, and half of the base's 24,000 forward passes, three an image."""
    whole = load_record(base).macs
    small = RECIPE | {"images": 8}
    _, figures = carry_out(place, make(start="scratch", base_share=0.01, recipe=small))
    for one in figures:
        expected = 4 + 0.01 * 24000 * whole / 2 / (3 * one["macs"])
        assert -0.5 <= one["images_seen"] - expected < 4.5  # whole images in whole batches of 4
    assert figures[0]["images_seen"] > figures[1]["images_seen"] > 40


def test_a_plan_that_was_stopped_resumes_and_ends_equal(make, place, runtime, tmp_path, monkeypatch):
    whole, _ = carry_out(Here(tmp_path / "uninterrupted", runtime), make(pruning=PROXY))
    real, calls = plans.train_expert, []

    def stops(place: Any, job: Any, *asked: Any, **changes: Any) -> Any:
        calls.append(job.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(place, job, *asked, **changes)

    monkeypatch.setattr(plans, "train_expert", stops)
    with pytest.raises(KeyboardInterrupt):
        carry_out(place, make(pruning=PROXY))
    models, _ = carry_out(place, make(pruning=PROXY))
    assert [name[-1] for name in calls] == ["0", "1", "1"], "the first group is not trained again"
    # Records hold the hashes of all files.
    assert [load_record(model) for model in models] == [load_record(model) for model in whole]


@pytest.mark.thorough
def test_images_in_proportion_to_timesteps(make, place):
    _, figures = carry_out(place, make(allocation="timesteps", pruning=None, recipe=RECIPE | {"images": 100}))
    for row in figures:
        expected = 100 * (row["last"] - row["first"] + 1) / T
        assert expected <= row["images_seen"] < expected + 4  # whole batches


def test_interleaved_groups_are_sampled_by_remainder(make, place, tmp_path):
    models, figures = carry_out(place, make(groups={"kind": "interleaved", "count": 3}, pruning=None))
    assert [(one["first"], one["last"], one["stride"]) for one in figures] == [(0, 48, 3), (1, 49, 3), (2, 47, 3)]
    assert totals(figures)["images"] == 8000 + 3 * 12  # 32 images in thirds, in batches of four
    for number, model in enumerate(models):
        assert load_record(model).stride == 3
        model.rename(tmp_path / f"group_{number}")
    assert Ensemble.load(tmp_path).routes.tolist() == [t % 3 for t in range(T)]


def test_a_plan_may_start_from_a_snapshot_of_the_base(make, place, base, tiny_net, make_record):
    net = tiny_net()
    earlier = make_record(net, name="base/snapshots/3001", images_seen=3001, training_flops=9003)
    save_model(base / "snapshots" / "3001", net, earlier)
    models, figures = carry_out(place, make(pruning=None, from_images=3000))
    assert [load_record(model).parent for model in models] == ["base/snapshots/3001"] * 2
    assert [one["inherited_images"] for one in figures] == [3001, 3001]
    said = refusal(carry_out, place, make(pruning=None, from_images=2000))
    assert said.startswith("from_images: 2000; ") and said.endswith("base has snapshots after [3001] images")


def test_a_limit_out_of_reach_is_refused(make, place):
    assert "is out of reach" in refusal(carry_out, place, make(groups=WHOLE | {"ratio": 0.01}))


def test_totals_are_means_over_timesteps_and_sums_over_groups():
    facts = {"stride": 1, "inherited_images": 5, "inherited_flops": 7, "training_seconds": 1.0, "compute_seconds": 0.5}
    small = {"first": 0, "last": 9, "limit_ratio": 0.5, "macs": 10, "parameters": 4, "images_seen": 3}
    large = {"first": 10, "last": 39, "limit_ratio": 1.0, "macs": 30, "parameters": 8, "images_seen": 3}
    searched = {"pruning": {"seconds": 2.0, "search_flops": 11}, "training_flops": 90}
    plain = {"pruning": None, "training_flops": 270}
    assert totals([facts | small | searched, facts | large | plain]) == {
        "limit_ratio": 0.875,
        "macs_a_step": 25.0,
        "parameters_a_step": 7.0,
        "parameters": 12,
        "images": 11,
        "training_flops": 367,
        "search_flops": 11,
        "pruning_seconds": 2.0,
        "training_seconds": 2.0,
        "compute_seconds": 1.0,
    }
