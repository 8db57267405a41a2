"""Costs before anything runs: of the stages that the models asked for need."""

import os
import re
from pathlib import Path

import pytest
import torch
from commands import done
from graph import ROOT, instances

from unequal.cli import estimate
from unequal.cli.architecture import network_of, spec_of
from unequal.cli.estimate import Work
from unequal.models.backbones.backbone import build_network, count_cost
from unequal.settings.params import Params

DIGITS = ROOT / "presets/digits.yaml"


def works_of(params: Params) -> tuple[dict[str, Work], int]:
    net = build_network(params.network, spec_of(params))
    return {work.name: work for work in estimate.workload(params, net)}, count_cost(net).macs


def test_every_stage_counts_and_the_flops_of_training() -> None:
    params = Params.read(DIGITS)
    works, macs = works_of(params)
    assert works["profile_floor"].forward == 2 * 1000 * 16 * 1617 * 64  # draws × training images × values, twice
    assert sum(work.instances for work in works.values()) == len(instances(Path()))
    # 3 × multiply–accumulates of the network × images
    assert works["train_base"].training == 3 * macs * params.recipes["base"].images
    assert works["finetune_groups"].training < works["finetune_unpruned"].training
    assert works["finetune_unpruned"].training == works["train_recipe longer"].training
    # Two methods' schemes and two rounds of three, and as many random ones, each tried on 512 images by networks within
    # the groups' limits.
    assert 0.5 < works["prune"].forward / (4 * 2 * 8 * 512 * macs) < 1
    assert works["prune"].training == 0


def test_one_model_costs_its_own_stages_alone() -> None:
    params = Params.read(DIGITS).model_copy(update={"scored_models": ("base",), "profiled_models": ("base",)})
    works, _ = works_of(params)
    assert works.keys() == {"the others", "train_base", "profile_floor", "profile_loss", "evaluate_fid"}
    assert works["evaluate_fid"].instances == works["profile_loss"].instances == 1


def test_the_table_has_the_sum_and_the_memory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "start_seconds", lambda: 1.0)
    monkeypatch.setattr(estimate, "TIMED_MACS", 1e8)
    output = done("estimate", DIGITS)
    rows = {name.strip(): float(flops) for name, flops in re.findall(r"^(\S.{24}) +\d+ +(\S+)", output, re.MULTILINE)}
    assert rows.pop("in all, one after another") == pytest.approx(sum(rows.values()), rel=0.01)
    assert re.search(r"^Memory: a training takes about \d+\.\d [MG]B", output, re.MULTILINE)


def test_memory_of_a_training_grows_with_its_batch() -> None:
    params = Params.read(DIGITS)
    net = network_of(params)
    trainings = (params.training.model_copy(update={"batch_size": size}) for size in (16, 32))
    small, large = (params.model_copy(update={"training": training}) for training in trainings)
    weights = sum(one.nbytes for one in net.parameters())
    one_batch = estimate.training_memory(small, net) - estimate.TRAINED_COPIES * weights
    assert estimate.training_memory(large, net) == estimate.TRAINED_COPIES * weights + 2 * one_batch
    assert one_batch > 16 * 4 * 64 * params.network.block_out_channels[0]


@pytest.mark.parametrize(("share", "said"), [(0.97, []), (0.43, ["43%"])])
def test_other_programs_are_named_with_what_they_leave(
    share: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "share_of_time", lambda _: share)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    lines = list(estimate.busy(Params.read(DIGITS)))
    assert [line[line.index("gets ") + 5 :][:3] for line in lines] == said
    assert all(line.endswith("takes about 0.4 of the time.") for line in lines)


def test_two_threads_of_one_core_get_half_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "SECONDS", 0.5)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert 0 < estimate.share_of_time(2) < 0.6
    finally:
        os.sched_setaffinity(0, cores)
