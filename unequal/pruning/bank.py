"""Memory bank of a decision maker: every scheme that was tried, and its result (paper 3, eq. 12).

It is a file of JSON lines, one for each candidate, and safe once a line is written: a search that was stopped resumes
after the last one, and a recorded one can be replayed. The built-in decision maker, Optuna's tree-structured Parzen
estimator over the blocks' ratios, proposes from the bank alone.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from unequal.errors import UserError
from unequal.randomness import Stream, torch_seed
from unequal.settings.strict import Strict

Ratio = Annotated[float, Field(ge=0, le=1)]
#: Schemes of the bank from which on the estimator has its say, so that the first round goes by what it starts from.
STARTUP = 1


class Proposal(NamedTuple):
    """A scheme to be tried, and who proposes it."""

    proposer: str
    scheme: dict[str, float]


class Candidate(Strict):
    """A scheme that was tried."""

    round: NonNegativeInt
    candidate: NonNegativeInt
    proposer: str
    proposed: dict[str, Ratio] = Field(description="the scheme as it was handed in")
    scheme: dict[str, Ratio] = Field(description="the scheme as it was scaled to the limit")
    macs: PositiveInt = Field(description="of the pruned network, measured")
    limit_macs: PositiveFloat
    loss: NonNegativeFloat = Field(description="of the pruned network, at the timesteps that it is for")


class Bank:
    """The candidates so far, in a file.

    Args:
        path: of the file; made with the first candidate. What a stopped process wrote of a line is cut off.

    Raises:
        UserError: a whole line is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.candidates: list[Candidate] = []
        if path.exists():
            whole, _, rest = path.read_bytes().rpartition(b"\n")
            if rest:
                os.truncate(path, path.stat().st_size - len(rest))
            self.candidates = parsed(whole, path)

    def add(self, candidate: Candidate) -> None:
        """Write a candidate down; it is on the disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(candidate.model_dump_json() + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.candidates.append(candidate)

    def holds(self, round_: int, candidate: int) -> bool:
        """Whether a candidate of a round has been tried."""
        return any((one.round, one.candidate) == (round_, candidate) for one in self.candidates)

    @property
    def best(self) -> Candidate:
        """The candidate with the smallest loss, the first of equals."""
        return min(self.candidates, key=lambda one: one.loss)

    def rows(self) -> list[dict[str, Any]]:
        """The candidates as rows of a table."""
        return [row_of(one) for one in self.candidates]


def row_of(candidate: Candidate) -> dict[str, Any]:
    """A candidate without nested parts: ratios stand in columns of their own."""
    facts = candidate.model_dump(exclude={"proposed", "scheme"})
    return facts | {f"ratio.{block}": ratio for block, ratio in candidate.scheme.items()}


def read_bank(path: Path) -> list[Candidate]:
    """A recorded bank. Raises UserError where it is missing, empty or damaged."""
    try:
        candidates = parsed(path.read_bytes().rstrip(b"\n"), path)
    except OSError as error:
        raise UserError(f"{path}: no memory bank that can be read ({error})") from None
    if not candidates:
        raise UserError(f"{path}: a memory bank without a candidate")
    return candidates


def parsed(content: bytes, path: Path) -> list[Candidate]:
    """The candidates of a bank's lines. Raises UserError."""
    # A line ends with a line feed alone: names may hold other signs that Python takes for ends of lines.
    lines = content.split(b"\n") if content else []
    return [parsed_line(line, f"{path}: line {number}") for number, line in enumerate(lines, 1)]


def parsed_line(line: bytes, place: str) -> Candidate:
    """A candidate from its line. Raises UserError."""
    try:
        return Candidate.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{place} is no candidate of a memory bank: {where}: {first['msg']}") from None


def rounds_of(candidates: Sequence[Candidate]) -> dict[int, list[Candidate]]:
    """The candidates of each round, in their order. Raises UserError where one is missing or stands twice."""
    rounds: dict[int, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: (one.round, one.candidate)):
        rounds.setdefault(one.round, []).append(one)
    for number, found in rounds.items():
        if [one.candidate for one in found] != list(range(len(found))):
            raise UserError(f"round {number} of the memory bank lacks a candidate, or has one twice")
    return rounds


class TpeProposer:
    """Proposes schemes by the bank alone: the same bank and seed give the same ones, whoever was stopped before.

    Args:
        blocks: names of the blocks.
        count: schemes a round.
        seed: of the draws.
    """

    def __init__(self, blocks: Sequence[str], count: int, seed: int) -> None:
        self.blocks, self.count, self.seed = list(blocks), count, seed

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
        """The schemes of a round."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        space: dict[str, optuna.distributions.BaseDistribution] = {
            block: optuna.distributions.FloatDistribution(0, 1) for block in self.blocks
        }
        seed = torch_seed(self.seed, Stream.PRUNING, round_) % 2**32
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP))
        for one in bank:
            study.add_trial(optuna.create_trial(params=one.scheme, distributions=space, value=one.loss))
        return [Proposal("tpe", dict(study.ask(space).params)) for _ in range(self.count)]
