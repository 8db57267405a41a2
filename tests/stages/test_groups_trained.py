"""Training for a group: on its timesteps or a little beyond, from the base or from scratch for as much compute."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params

import stages.finetune_groups
import stages.train_single_stage
from unequal.data.prepared import PreparedData
from unequal.files import write_json
from unequal.models.artifact import ModelRecord, load_model, load_pruning, load_record, save_model
from unequal.models.flops import count_cost
from unequal.models.pruned import replay
from unequal.settings.training import Training
from unequal.training.run import Job

OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"}
EXPERT: dict[str, Any] = {
    "images": 8,
    "prediction": "epsilon",
    "sampler": {"kind": "slot"},
    "loss_weight": {"kind": "none"},
    "optimizer": OPTIMIZER,
}
BASE = EXPERT | {"images": 80, "sampler": {"kind": "uniform"}, "snapshots": [40]}
REMOVALS = [("down_blocks.0.resnets.0.conv1", [0, 1, 2, 3])]
GROUPS = {
    "timesteps": 50,
    "schedule": "linear",
    "kind": "snr",
    "min_ratio": 0.5,
    "groups": [
        {"group": 0, "first": 0, "last": 9, "limit_ratio": 0.75},
        {"group": 1, "first": 10, "last": 49, "limit_ratio": 1.0},
    ],
}


@pytest.fixture(autouse=True)
def pruned(
    project: Path,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
) -> ModelRecord:
    """Data, groups, a base, and its pruned form for group 0; the base has cost 24,000 forward passes of one image."""
    shutil.copytree(prepared.path, "artifacts/data")
    write_json(Path("artifacts/groups.json"), GROUPS)
    net = tiny_net()
    base = make_record(net, name="base", images_seen=8000, training_flops=24000 * count_cost(net).macs)
    save_model(Path("artifacts/models/base"), net, base)
    replay(net, REMOVALS)
    record = make_record(
        net,
        name="pruned/expert/group_0",
        first=0,
        last=9,
        parent="base",
        images_seen=0,
        training_flops=0,
        inherited_images=base.total_images,
        inherited_flops=base.total_flops,
    )
    save_model(Path("artifacts/pruned/expert/group_0"), net, record, REMOVALS)
    return record


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that a stage hands to training, which is not carried out."""
    taken: list[Job] = []
    for program in (stages.finetune_groups, stages.train_single_stage):
        monkeypatch.setattr(program, "produce", lambda run, job: taken.append(job))
    return taken


def run(program: Any, training: Callable[..., Training], overlap: float, *options: str) -> Result:
    expert = EXPERT | {"sampler": {"kind": "slot", "overlap": overlap}}
    write_params(seed=0, training=training().model_dump(mode="json"), recipes={"base": BASE, "expert": expert})
    return CliRunner().invoke(program.main, [*options])


@pytest.mark.parametrize(("overlap", "drawn"), [(0.0, range(10)), (0.25, range(12)), (1.0, range(20))])
def test_overlap_widens_what_is_drawn_and_not_what_is_routed(
    overlap: float, drawn: range, jobs: list[Job], training_settings: Callable[..., Training]
) -> None:
    run(stages.finetune_groups, training_settings, overlap, "--architecture", "unpruned", "--group", "0")
    run(stages.train_single_stage, training_settings, overlap, "--group", "0")
    for job in jobs:
        assert [t for t, p in enumerate(job.sampler.probabilities) if p > 0] == list(drawn)
        assert (job.start.first, job.start.last) == (0, 9)
    assert len(jobs) == 2


def test_a_single_stage_costs_as_much_as_two(
    pruned: ModelRecord, jobs: list[Job], training_settings: Callable[..., Training]
) -> None:
    """Its images are the expert's, and as many more as half of the base's compute buys for the pruned network."""
    assert run(stages.train_single_stage, training_settings, 0.0, "--group", "0").exit_code == 0
    images = jobs[0].recipe.images
    two_stages = pruned.inherited_flops / 2 + 3 * pruned.macs * EXPERT["images"]
    assert 3 * pruned.macs * images == pytest.approx(two_stages, abs=1.5 * pruned.macs)
    assert images > 8000 / 2 + 8


def test_a_single_stage_begins_with_fresh_weights_of_the_pruned_sizes(
    jobs: list[Job], training_settings: Callable[..., Training]
) -> None:
    run(stages.train_single_stage, training_settings, 0.0, "--group", "0")
    net, _ = load_model(Path("artifacts/pruned/expert/group_0"))
    fresh = dict(jobs[0].start.net.named_parameters())
    for name, weights in net.named_parameters():
        assert weights.shape == fresh[name].shape
        if weights.ndim > 1:
            assert not torch.equal(weights, fresh[name])
    # A convolution of c channels and 3 × 3 pixels begins uniform within ± 1/√(9c): its variance is 1/(27c).
    conv = fresh["down_blocks.0.resnets.0.conv2.weight"]
    assert conv.shape[1] == 4
    assert float(conv.var()) == pytest.approx(1 / (27 * 4), rel=0.15)


def test_the_model_of_a_single_stage_owes_nothing_to_the_base(training_settings: Callable[..., Training]) -> None:
    """A base that cost nothing leaves the expert's eight images, which are trained here."""
    folder = Path("artifacts/pruned/expert/group_0")
    record = load_record(folder)
    net, _ = load_model(folder)
    save_model(folder, net, ModelRecord(**{**vars(record), "inherited_flops": 0, "sha256": {}}), REMOVALS)
    result = run(stages.train_single_stage, training_settings, 0.0, "--group", "0")
    assert result.exit_code == 0, result.output
    made = Path("artifacts/models/experts_single_stage/group_0")
    trained = load_record(made)
    assert (trained.parent, trained.inherited_images, trained.images_seen) == (None, 0, 8)
    assert (trained.macs, trained.group, trained.groups) == (record.macs, 0, 2)
    assert load_pruning(made) == [list(removal) for removal in REMOVALS]
