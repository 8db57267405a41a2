"""Memory bank of a decision maker: every scheme that was tried, and its result (paper 3, eq. 12).

A search that was stopped resumes after the last candidate. A finished one leaves a file of JSON lines, one for each
candidate, which can be replayed. The built-in decision maker, Optuna's tree-structured Parzen estimator over the
blocks' ratios, proposes from the bank alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from unequal.errors import UserError
from unequal.randomness import Stream, torch_seed
from unequal.runtime.files import read_facts, write_bytes, write_facts
from unequal.settings.strict import Strict

#: File of a finished search, and of one that may be resumed.
BANK, STATE = "memory_bank.jsonl", "memory_bank.json"
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
    """The candidates so far of a search, in a folder of resumable state.

    Args:
        work: the folder; its file is made with the first candidate. Where that file is damaged, the bank is empty.
    """

    def __init__(self, work: Path) -> None:
        self.path = work / STATE
        self.candidates = list(map(Candidate.model_validate, read_facts(self.path) or []))

    def add(self, candidate: Candidate) -> None:
        """Write a candidate down; it is on the disk when this returns."""
        write_facts(self.path, [one.model_dump(mode="json") for one in (*self.candidates, candidate)])
        self.candidates.append(candidate)

    def publish(self, folder: Path) -> None:
        """Write the candidates into a model's folder, as JSON lines; no file where there are none."""
        if self.candidates:
            write_bytes(folder / BANK, "".join(f"{one.model_dump_json()}\n" for one in self.candidates).encode())

    def holds(self, round_: int, candidate: int) -> bool:
        """Say whether a candidate of a round has been tried."""
        return any((one.round, one.candidate) == (round_, candidate) for one in self.candidates)

    @property
    def best(self) -> Candidate:
        """The candidate with the smallest loss, the first of equals."""
        return min(self.candidates, key=lambda one: one.loss)


def read_bank(path: Path) -> list[Candidate]:
    """A recorded bank. Raises UserError where it is missing, empty or damaged."""
    try:
        candidates = parsed(path.read_bytes().rstrip(b"\n"), path)
    except OSError as error:
        raise UserError(f"{path}: no memory bank that can be read ({error.strerror})") from None
    if not candidates:
        raise UserError(f"{path}: a memory bank without a candidate")
    return candidates


def parsed(content: bytes, path: Path) -> list[Candidate]:
    """The candidates of a bank's lines. Raises UserError."""
    # A line ends with a line feed alone: names may hold other signs that Python takes for ends of lines.
    lines = content.split(b"\n") if content else []
    candidates = []
    for number, line in enumerate(lines, 1):
        try:
            candidates.append(Candidate.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = f"{path}: line {number} is no candidate of a memory bank: {'.'.join(map(str, first['loc']))}"
            raise UserError(f"{where}: {first['msg']}") from None
    return candidates


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
    """Proposes schemes by the bank alone: the same bank and seed give the same ones, whoever was stopped before."""

    def __init__(self, blocks: Sequence[str], count: int, seed: int) -> None:
        self.blocks, self.count, self.seed = list(blocks), count, seed

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
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
