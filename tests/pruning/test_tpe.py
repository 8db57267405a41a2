"""The embedded decision maker depends on seed and bank alone, and learns."""

import pytest

from unequal.pruning.bank import Candidate, TpeProposer

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


def test_the_first_round_goes_by_what_a_search_starts_from() -> None:
    """Beside a good start and a bad one, draws are nearer the good one than draws of no start at all."""
    good, bad = dict.fromkeys(BLOCKS, 0.9), dict.fromkeys(BLOCKS, 0.1)
    start = [candidate(0, good, 0.0), candidate(1, bad, 1.0)]
    told, untold = (
        [
            ratio
            for seed in range(20)
            for _, scheme in TpeProposer(BLOCKS, 3, seed).propose(1, bank)
            for ratio in scheme.values()
        ]
        for bank in (start, [])
    )
    assert abs(sum(untold) / len(untold) - 0.5) < 0.05  # 180 uniform draws: 2.3 standard errors
    assert sum(told) / len(told) > 0.65


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_from_the_bank(seed: int) -> None:
    losses = [one.loss for one in search(seed, 12)]
    assert sum(losses[-9:]) < 0.5 * sum(losses[:9])
