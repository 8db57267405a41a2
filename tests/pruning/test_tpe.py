"""The embedded decision maker depends on seed and bank alone, and learns."""

import pytest

from unequal.pruning.bank import Candidate
from unequal.pruning.tpe import TpeProposer

BLOCKS = ["conv_in", "mid_block", "up_blocks.0"]


def candidate(number: int, scheme: dict[str, float], loss: float) -> Candidate:
    return Candidate(
        round=number // 3,
        candidate=number % 3,
        proposer="tpe",
        proposed=scheme,
        scheme=scheme,
        macs=1,
        limit_macs=1.0,
        loss=loss,
    )


def search(seed: int, rounds: int) -> list[Candidate]:
    """A search whose best scheme is 0.8 in the first block and 0.2 in the second."""
    bank: list[Candidate] = []
    for round_ in range(rounds):
        for _, scheme in TpeProposer(BLOCKS, 3, seed).propose(round_, bank):
            loss = (scheme["conv_in"] - 0.8) ** 2 + (scheme["mid_block"] - 0.2) ** 2
            bank.append(candidate(len(bank), scheme, loss))
    return bank


def test_schemes_are_whole_and_differ() -> None:
    proposals = TpeProposer(BLOCKS, 3, 0).propose(1, [])
    assert [proposer for proposer, _ in proposals] == ["tpe"] * 3
    assert all(set(scheme) == set(BLOCKS) and all(0 <= r <= 1 for r in scheme.values()) for _, scheme in proposals)
    assert len({tuple(scheme.values()) for _, scheme in proposals}) == 3


def test_the_same_seed_and_bank_give_the_same_schemes() -> None:
    bank = search(0, 3)
    first, again = (TpeProposer(BLOCKS, 3, 0).propose(3, bank) for _ in range(2))
    assert first == again
    assert TpeProposer(BLOCKS, 3, 1).propose(3, bank) != first
    assert TpeProposer(BLOCKS, 3, 0).propose(4, bank) != first
    assert TpeProposer(BLOCKS, 3, 0).propose(3, bank[:-1]) != first


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_from_the_bank(seed: int) -> None:
    losses = [one.loss for one in search(seed, 12)]
    assert sum(losses[-9:]) < 0.5 * sum(losses[:9])
