"""The study's params.yaml is sound, and each edit that makes it impossible is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
import torch
from params_files import edited
from specs import spec_of

from studies.consistency.comparison import untrained
from studies.consistency.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"

REFUSED: list[tuple[str, Any, str]] = [
    ("consistency.seeds", [1, 1], "consistency: seeds: [1, 1] names one twice"),
    (
        "consistency.widths",
        ["16x32"],
        'consistency.widths.0: "16x32": no channels; allowed: those of each resolution, as in',
    ),
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
    ("consistency.comparison.timesteps", [5, 5], "consistency.comparison: timesteps: [5, 5] must rise strictly"),
    (
        "consistency.comparison.timesteps",
        [5, 1000],
        "consistency.comparison.timesteps: 1000 reaches beyond the last timestep 999",
    ),
    ("sampling.eta", 0.5, "sampling.eta: 0.5; consistency compares pictures of one noise, and needs 0"),
    (
        "network.condition",
        {"kind": "labels", "classes": 10},
        "network.condition.kind: labels; replicas make pictures of noise alone: none",
    ),
    ("network.pretrained", "a/b", "network.pretrained: 'a/b'; replicas start from fresh weights: null"),
]


def refusal(key: str, value: Any, folder: Path) -> str:
    path = edited(STUDY, {key: value}, folder)
    with pytest.raises(UserError) as caught:
        Params.read(path)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(("key", "value", "complaint"), REFUSED, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)])
def test_an_impossible_edit_is_refused_in_one_line(key: str, value: Any, complaint: str, tmp_path: Path) -> None:
    said = refusal(key, value, tmp_path)
    assert said.startswith(complaint)
    assert "\n" not in said


def test_the_seed_alone_decides_the_weights_of_a_width(network_settings: Any) -> None:
    torch.manual_seed(5)
    first, other = (untrained(network_settings(), "8-16", seed, spec_of()).state_dict() for seed in (3, 4))
    torch.manual_seed(6)
    again = untrained(network_settings(), "8-16", 3, spec_of())
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in first.items())
    assert not torch.equal(first["conv_in.weight"], other["conv_in.weight"])
    assert tuple(again.config["block_out_channels"]) == (8, 16)  # type: ignore[index]
