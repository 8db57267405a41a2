"""The study's params.yaml is sound, and each edit that makes it impossible is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
from params_files import DELETE, edited

from studies.consistency.params import Params
from studies.consistency.settings import replica, with_width
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"

REFUSED: list[tuple[str, Any, str]] = [
    ("consistency.seeds", [0], "consistency.seeds: Tuple should have at least 2 items"),
    ("consistency.seeds", [1, 1], "consistency: seeds: [1, 1] names one twice"),
    ("consistency.seeds", [0, -1], "consistency.seeds.1: -1: Input should be greater than or equal to 0"),
    ("consistency.widths", [], "consistency.widths: Tuple should have at least 1 item"),
    ("consistency.widths", ["16-32", "16-32"], "consistency: widths: ['16-32', '16-32'] names one twice"),
    (
        "consistency.widths",
        ["16x32"],
        'consistency.widths.0: "16x32": no channels; allowed: those of each resolution, as in',
    ),
    ("consistency.widths", ["0-32"], 'consistency.widths.0: "0-32": no channels'),
    ("consistency.widths", [1632], "consistency.widths.0: 1632: Input should be a valid string"),
    (
        "consistency.widths",
        ["16-30"],
        "consistency.widths: width '16-30': block_out_channels: 30 is no multiple of norm_num_groups 4",
    ),
    (
        "consistency.widths",
        ["8-12"],
        "consistency.widths: network.attention_head_dim: 8 does not divide the 12 channels of a level with attention",
    ),
    (
        "consistency.widths",
        ["8-8-8-8-8"],
        "consistency.widths: data.image_size: 8 cannot be halved 4 times by the network; allowed: multiples of 16",
    ),
    (
        "consistency.comparison.noises",
        1,
        "consistency.comparison.noises: 1: Input should be greater than or equal to 2",
    ),
    ("consistency.comparison.timesteps", [5, 5], "consistency.comparison: timesteps: [5, 5] must rise strictly"),
    (
        "consistency.comparison.timesteps",
        [5, 1000],
        "consistency.comparison.timesteps: 1000 reaches beyond the last timestep 999",
    ),
    ("consistency.landscape.points", 2, "consistency.landscape.points: 2: Input should be greater than or equal to 3"),
    ("consistency.landscape.iterations", 0, "consistency.landscape.iterations: 0: Input should be greater than 0"),
    ("sampling.eta", 0.5, "sampling.eta: 0.5; consistency compares pictures of one noise, and needs 0"),
    ("sampling", DELETE, "sampling: Field required"),
    (
        "network.condition",
        {"kind": "labels", "classes": 10},
        "network.condition.kind: labels; replicas make pictures of noise alone: none",
    ),
    ("network.pretrained", "a/b", "network.pretrained: 'a/b'; replicas start from fresh weights: null"),
    (
        "network.condition",
        {"kind": "low_resolution", "super_resolution_factor": 2},
        "network.condition.kind: low_resolution; replicas make pictures of noise alone: none",
    ),
    ("recipes.base", DELETE, "recipes: 'base' is missing; needed: base"),
]


def refusal(key: str, value: Any, folder: Path) -> str:
    """What reading the study's params.yaml says after an edit at a dotted key."""
    path = edited(STUDY, {key: value}, folder)
    with pytest.raises(UserError) as caught:
        Params.read(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_the_study_is_sound_and_compares_several_seeds_and_two_widths() -> None:
    consistency = Params.read(STUDY).consistency
    assert len(consistency.widths) >= 2
    assert len(consistency.seeds) >= 2


@pytest.mark.parametrize(("key", "value", "complaint"), REFUSED, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)])
def test_an_impossible_edit_is_refused_in_one_line(key: str, value: Any, complaint: str, tmp_path: Path) -> None:
    said = refusal(key, value, tmp_path)
    assert said.startswith(complaint)
    assert "\n" not in said


def test_a_width_replaces_the_channels_and_nothing_else(network_settings: Any) -> None:
    network = network_settings()
    wide = with_width(network, "12-24-48")
    assert wide.block_out_channels == (12, 24, 48)
    assert wide.model_dump(exclude={"block_out_channels"}) == network.model_dump(exclude={"block_out_channels"})


@pytest.mark.parametrize(
    ("width", "complaint"),
    [
        ("16-", "width '16-': no channels; write them as in 16-32"),
        ("wide", "width 'wide': no channels; write them as in 16-32"),
        ("0-8", "width '0-8': Input should be greater than 0"),
        ("6", "width '6': block_out_channels: 6 is no multiple of norm_num_groups 4"),
    ],
)
def test_a_width_that_no_network_can_have_is_refused(width: str, complaint: str, network_settings: Any) -> None:
    with pytest.raises(UserError) as caught:
        with_width(network_settings(), width)
    assert str(caught.value) == complaint


def test_names_of_replicas() -> None:
    assert replica("16-32", 7) == "16-32/seed_7"
