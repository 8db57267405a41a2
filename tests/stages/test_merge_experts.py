"""Merging as a stage: the model folder that comes of it is sampled like any other and knows what it cost."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from stage_project import write_params

from stages.merge_experts import main
from unequal.models.folder import load_model, load_record, save_model
from unequal.models.weights import moved
from unequal.runtime.files import read_json

EXPERTS = Path("artifacts/models/experts_unpruned")
BASE = {"images_seen": 1000, "training_flops": 9000, "steps": 10}
EXPERT = {"parent": "base", "images_seen": 100, "training_flops": 700, "steps": 5, "groups": 2}


@pytest.fixture(autouse=True)
def models(project, tiny_net, make_record):
    """A base of ones and two experts: +0.5 everywhere, −0.1 everywhere."""
    net = tiny_net()
    start = {name: torch.ones_like(one) for name, one in net.state_dict().items()}
    for name, change, facts in (
        ("base", 0.0, BASE),
        ("experts_unpruned/group_0", 0.5, EXPERT | {"first": 0, "last": 24, "group": 0}),
        ("experts_unpruned/group_1", -0.1, EXPERT | {"first": 25, "last": 49, "group": 1}),
    ):
        net.load_state_dict(moved(start, torch.full((sum(one.numel() for one in start.values()),), change)))
        save_model(Path("artifacts/models") / name, net, make_record(net, name=name, **facts))


def run(weights: object) -> Result:
    write_params(merging={"weights": weights})
    return CliRunner().invoke(main, [])


@pytest.mark.parametrize(("weights", "value"), [("mean", 1.2), (1.0, 1.4), ([0.0, 2.0], 0.8)])
def test_all_weights_move_by_the_weighted_sum(weights, value):
    assert run(weights).exit_code == 0
    net, _ = load_model(Path("artifacts/models/merged"))
    for tensor in net.state_dict().values():
        torch.testing.assert_close(tensor, torch.full_like(tensor, value))


def test_the_record_counts_what_all_experts_have_seen_and_figures_show_how_far_they_went():
    run(1.0)
    merged, base = load_record(Path("artifacts/models/merged")), load_record(Path("artifacts/models/base"))
    assert (merged.total_images, merged.total_flops) == (1000 + 2 * 100, 9000 + 2 * 700)
    assert (merged.macs, merged.parameters, merged.parent) == (base.macs, base.parameters, "base")
    assert (merged.first, merged.last, merged.group) == (0, 49, None)
    figures = read_json(Path("results/metrics/merge_experts.json"))
    assert figures["relative_lengths"] == pytest.approx([0.5, 0.1], rel=1e-4)
    # Opposite directions: 0.4 left of a change that would be √(0.5² + 0.1²) long were they orthogonal.
    assert figures["length_over_orthogonal"] == pytest.approx(0.4 / 0.26**0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ([0.1, 0.2, 0.3], "merging.weights: 3 weights for 2 experts; allowed: one for each"),
        ("sum", 'params.yaml: merging.weights: "sum"; allowed: mean or a number or a list'),
    ],
)
def test_weights_that_cannot_be(weights, complaint):
    result = run(weights)
    assert (result.exit_code, result.output) == (1, f"merge_experts: {complaint}\n")
    assert not Path("artifacts/models/merged").exists()


def test_experts_of_another_base_are_refused(tiny_net, make_record):
    net = tiny_net()
    save_model(EXPERTS / "group_1", net, make_record(net, **EXPERT | {"parent": "pruned/expert/group_1"}))
    result = run("mean")
    assert result.output == f"merge_experts: {EXPERTS}/group_1: no unpruned expert trained on from 'base'\n"
