"""Schemes: blocks by their names, scaling to any limit with the proportions kept, and back from what is gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.models.backbones.unet2d.pruning import block_of
from unequal.pruning.anatomy import Unit, blocks_of, scale_at, scaled_order, scheme_of

RANKING = [
    Unit(layer, (i,), rank, block_of(layer))
    for rank, (layer, i) in enumerate(
        (layer, i)
        for i in range(4)
        for layer in ("up_blocks.0.resnets.0.conv1", "conv_in", "mid_block.resnets.0.conv1")
    )
]
BLOCKS = ["conv_in", "mid_block", "up_blocks.0"]


@pytest.mark.parametrize(
    ("layer", "block"),
    [
        ("down_blocks.1.resnets.0.conv1", "down_blocks.1"),
        ("up_blocks.0.upsamplers.0.conv", "up_blocks.0"),
        ("mid_block.attentions.0.to_q", "mid_block"),
        ("conv_in", "conv_in"),
    ],
)
def test_a_layer_belongs_to_a_block(layer: str, block: str) -> None:
    assert block_of(layer).name == block


def test_blocks_stand_in_the_order_of_the_network_and_their_units_in_that_of_the_ranking() -> None:
    blocks = blocks_of(RANKING)
    assert list(blocks) == BLOCKS
    for units in blocks.values():
        assert [unit.importance for unit in units] == sorted(unit.importance for unit in units)


def test_scaled_ratios_by_hand() -> None:
    # At s = −½, 0.8 has become 0.4; at s = ½, 0.8 + ½·0.2 = 0.9; what is not to go at all goes from s = 0 on.
    assert scale_at(0.8, 0.4) == pytest.approx(-0.5)
    assert scale_at(0.8, 0.9) == pytest.approx(0.5)
    assert scale_at(0.0, 0.25) == 0.25
    assert scale_at(1.0, 0.25) == -0.75


def test_one_block_goes_before_another() -> None:
    order = scaled_order(RANKING, {"conv_in": 1.0, "mid_block": 0.5, "up_blocks.0": 0.0})
    assert [unit.block.name for unit in order[:6]].count("conv_in") == 4
    # Of the middle, a half stands among what the scheme takes, and the rest between what it does not.
    assert [unit.block.name for unit in order[6:]].count("up_blocks.0") == 4


@given(st.fixed_dictionaries(dict.fromkeys(BLOCKS, st.floats(0, 1))))
def test_within_a_block_the_ranking_rules(scheme: dict[str, float]) -> None:
    order = scaled_order(RANKING, scheme)
    assert sorted(order, key=RANKING.index) == RANKING
    for units in blocks_of(order).values():
        assert [unit.importance for unit in units] == sorted(unit.importance for unit in units)


@given(st.sets(st.integers(0, 11)))
def test_a_scheme_that_is_met_is_given_back(chosen: set[int]) -> None:
    counts = {block: sum(RANKING[i].block.name == block for i in chosen) for block in BLOCKS}
    scheme = {block: count / 4 for block, count in counts.items()}
    gone = scaled_order(RANKING, scheme)[: len(chosen)]
    assert scheme_of(gone, RANKING) == scheme


@given(st.floats(0, 1))
def test_proportions_are_kept_below_a_scheme(factor: float) -> None:
    whole = {"conv_in": 0.9, "mid_block": 0.7, "up_blocks.0": 0.4}
    part = scaled_order(RANKING, {block: factor * ratio for block, ratio in whole.items()})
    taken = sum((i + 0.5) / 4 < factor * ratio for ratio in whole.values() for i in range(4))
    assert part[:taken] == scaled_order(RANKING, whole)[:taken]
