"""The memory bank on the disk: a search resumes from it, a finished one is replayed from its lines."""

import json
from typing import Any

import pytest
from one_line import refusal

from unequal.experts.bank import BANK, STATE, Bank, Candidate, TpeProposer, read_bank, rounds_of

FACTS: dict[str, Any] = {
    "proposer": "tpe",
    "proposed": {"conv_in": 0.5, "mid_block": 1.0},
    "scheme": {"conv_in": 0.25, "mid_block": 0.5},
    "macs": 700,
    "limit_macs": 710.5,
}


def candidate(round_: int, number: int, loss: float = 0.5, **changes: Any) -> Candidate:
    return Candidate(**FACTS | {"round": round_, "candidate": number, "loss": loss} | changes)


def test_a_bank_is_taken_up_where_it_was_left(tmp_path):
    first = Bank(tmp_path)
    assert first.candidates == []
    for number, loss in enumerate([0.1 + 0.2, 0.25, 0.25]):
        first.add(candidate(0, number, loss))
    again = Bank(tmp_path)
    assert again.candidates == first.candidates
    assert (again.best.candidate, again.best.loss) == (1, 0.25)
    assert again.holds(0, 2) and not again.holds(0, 3) and not again.holds(1, 0)
    again.add(candidate(1, 0))
    again.publish(tmp_path)
    assert read_bank(tmp_path / BANK) == again.candidates


def test_a_loss_that_was_edited_does_not_win(tmp_path):
    bank = Bank(tmp_path)
    bank.add(candidate(0, 0))
    whole = (tmp_path / STATE).read_text()
    (tmp_path / STATE).write_text(whole.replace('"loss": 0.5', '"loss": 1e-9'))
    assert (tmp_path / STATE).read_text() != whole
    assert Bank(tmp_path).candidates == []


def test_a_line_is_plain_json(tmp_path):
    bank = Bank(tmp_path)
    bank.add(candidate(2, 1))
    bank.publish(tmp_path)
    facts = FACTS | {"round": 2, "candidate": 1, "loss": 0.5}
    assert [json.loads(line) for line in (tmp_path / BANK).read_text().splitlines()] == [facts]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"loss": float("nan")}, "loss: "),
        ({"proposed": {"conv_in": 1.01}}, "proposed.conv_in: Input should be less than or equal to 1"),
        ({"key": "secret"}, "key: Extra inputs are not permitted"),
    ],
)
def test_an_altered_line_is_reported_by_its_number(tmp_path, changes, complaint):
    path, good = tmp_path / "bank.jsonl", FACTS | {"round": 0, "candidate": 0, "loss": 0.5}
    path.write_text("".join(json.dumps(line) + "\n" for line in (good, good | changes)))
    said = f"{path}: line 2 is no candidate of a memory bank: {complaint}"
    assert refusal(read_bank, path).startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no memory bank that can be read"),
        (b"", "a memory bank without a candidate"),
        (b"\xff\xfe\n", "line 1 is no candidate of a memory bank: "),
    ],
)
def test_a_bank_that_is_none(tmp_path, content, said):
    path = tmp_path / "bank.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert refusal(read_bank, path).startswith(f"{path}: {said}")


def test_rounds_are_whole():
    rounds = rounds_of([candidate(1, 1), candidate(0, 0), candidate(1, 0)])
    assert {number: [one.candidate for one in found] for number, found in rounds.items()} == {0: [0], 1: [0, 1]}
    for incomplete in ([candidate(0, 0), candidate(0, 2)], [candidate(3, 0), candidate(3, 0)]):
        assert "of the memory bank lacks a candidate, or has one twice" in refusal(rounds_of, incomplete)


BLOCKS = ["conv_in", "mid_block", "up_blocks.0"]


def search(seed: int, rounds: int) -> list[Candidate]:
    bank: list[Candidate] = []
    for round_ in range(rounds):
        for _, scheme in TpeProposer(BLOCKS, 3, seed).propose(round_, bank):
            loss = (scheme["conv_in"] - 0.8) ** 2 + (scheme["mid_block"] - 0.2) ** 2
            bank.append(candidate(*divmod(len(bank), 3), loss, proposed=scheme, scheme=scheme))
    return bank


def test_the_same_seed_and_bank_give_the_same_schemes():
    bank = search(0, 3)
    first, again = (TpeProposer(BLOCKS, 3, 0).propose(3, bank) for _ in range(2))
    assert first == again
    assert TpeProposer(BLOCKS, 3, 1).propose(3, bank) != first
    assert TpeProposer(BLOCKS, 3, 0).propose(4, bank) != first
    assert TpeProposer(BLOCKS, 3, 0).propose(3, bank[:-1]) != first


@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns_from_the_bank(seed):
    losses = [one.loss for one in search(seed, 12)]
    assert sum(losses[-9:]) < 0.75 * sum(losses[:9])  # Optuna 4.5 to 5.0: 0.4 to 0.72
