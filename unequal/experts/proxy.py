"""Proxy-based pruning: an iterative decision maker proposes schemes and learns from their results.

Paper 3, eqs. 9–12: a proposer gets the network, the limit and the memory bank, and returns schemes; each is scaled to
the limit and tried; its loss goes into the bank, for the next round.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from unequal.errors import UserError, say
from unequal.experts.anatomy import Anatomy, blocks_of, random_scheme, scaled_order, scheme_of
from unequal.experts.bank import Bank, Candidate, Proposal, TpeProposer, read_bank, rounds_of
from unequal.experts.evaluator import Evaluator
from unequal.experts.fit import PrunedNetwork, removed_channels, too_many
from unequal.experts.importance import Target, ranked
from unequal.experts.llm import LanguageModel, RequestLog, Unanswered
from unequal.randomness import Stream, numpy_generator
from unequal.runtime.files import read_facts, write_facts
from unequal.runtime.progress import progress
from unequal.runtime.workspace import Workspace, nested
from unequal.settings import pruning as settings

#: Folder of the control, and its place among what is drawn.
CONTROL = "control"
CONTROL_KEY = (0, 1)


class Proposer(Protocol):
    """A decision maker."""

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
        """The schemes of a round. Raises Unanswered where it has no more to say, UserError where that is a mistake."""


@dataclass(frozen=True)
class Decision:
    """Result of a search.

    Attributes:
        pruned: the best network.
        bank: all schemes that were tried.
        flops: multiply–accumulates of their trials.
        fresh_loss: of the best one, on draws that it was not chosen by.
        ended: why the search ended early, if it did.
        log: of the requests to a language model.
        control: result of as many random schemes, where that was asked for.
    """

    pruned: PrunedNetwork
    bank: Bank
    flops: int
    fresh_loss: float
    ended: str | None
    log: RequestLog
    control: "Control | None" = None

    @property
    def figures(self) -> dict[str, Any]:
        """Figures of the search, next to those of the pruned network."""
        best = self.bank.best
        return {
            "proposer": best.proposer,
            "round": best.round,
            "candidate": best.candidate,
            "loss": best.loss,
            "fresh_loss": self.fresh_loss,
            "candidates": len(self.bank.candidates),
            "rounds": max(one.round for one in self.bank.candidates),
            "search_flops": self.flops,
            "ended": self.ended,
            **({} if self.control is None else self.control.figures(self.fresh_loss)),
            **({"language_model": self.log.means_a_round()} if self.log.requests else {}),
        }


@dataclass(frozen=True)
class Control:
    """The best of some random schemes: its loss on the draws that it was chosen by, and on fresh ones."""

    loss: float
    fresh_loss: float

    def figures(self, searched: float) -> dict[str, float]:
        """Figures of the control, next to the fresh loss of the scheme that the search found."""
        return {
            "control_loss": self.loss,
            "control_fresh_loss": self.fresh_loss,
            "gain_over_control": self.fresh_loss - searched,
        }


def decide(
    workspace: Workspace, method: settings.Proxy, target: Target, anatomy: Anatomy, recorded: Path | None = None
) -> Decision:
    """Search for the scheme with the smallest loss, resuming where an earlier process was stopped.

    Args:
        workspace, method, target, anatomy: where, how, what and of which layers.
        recorded: a bank that is replayed in the proxy's place.

    Raises:
        UserError: the limit is out of reach, a proposer cannot be asked, or a recorded bank is of another model.
    """
    ranking = ranked(method.ranking, target, anatomy)
    evaluator = Evaluator(target, anatomy, ranking, method.images, method.finetuning, workspace.runtime)
    rounds = list(rounds_by(workspace, method, evaluator, recorded))
    bank, ended = Bank(workspace.work), None
    for number, proposer in rounds:
        try:
            try_round(workspace, number, proposer, evaluator, bank)
        except Unanswered as reason:
            if not bank.candidates:
                raise
            ended, best = str(reason), bank.best
            going_on = f"going on with the best scheme so far, candidate {best.candidate} of round {best.round}"
            say(f"{ended}; {going_on}", err=True)
            break
    flops = sum(evaluator.flops(one.macs) for one in bank.candidates)
    chosen = bank.best.proposed
    fresh = evaluator.fresh_loss(chosen, workspace.work / "fresh")
    control = None if method.control is None else random_control(workspace, evaluator, len(bank.candidates))
    return Decision(evaluator.prune(chosen), bank, flops, fresh, ended, RequestLog(workspace.work), control)


def random_control(workspace: Workspace, evaluator: Evaluator, count: int) -> Control:
    """The best of so many random schemes: what a search of as many trials has to beat."""
    place = nested(workspace, CONTROL)
    bank = Bank(place.work)
    try_round(place, 0, Draws(evaluator, count), evaluator, bank)
    return Control(bank.best.loss, evaluator.fresh_loss(bank.best.proposed, place.work / "fresh"))


def rounds_by(
    workspace: Workspace, method: settings.Proxy, evaluator: Evaluator, bank: Path | None
) -> Iterator[tuple[int, Proposer]]:
    """Each round's number and who proposes in it; round 0 is that of the importance methods."""
    if bank is not None:
        recorded = Recorded(bank, evaluator)
        yield from ((number, recorded) for number in recorded.rounds)
        return
    blocks = blocks_of(evaluator.ranking)
    proposer: Proposer
    match method.decider:
        case settings.Tpe():
            proposer = TpeProposer(list(blocks), method.candidates, evaluator.target.seed)
        case settings.Llm():
            proposer = LanguageModel(method.decider, evaluator, method.candidates, RequestLog(workspace.work))
    if method.start:
        yield 0, Starts(method.start, evaluator)
    yield from ((number, proposer) for number in range(1, method.rounds + 1))


def try_round(workspace: Workspace, number: int, proposer: Proposer, evaluator: Evaluator, bank: Bank) -> None:
    """Try the schemes of a round that have not been tried yet; the proposals are stored until all have been."""
    proposals = workspace.work / f"round_{number}.json"
    if read_facts(proposals) is None:
        write_facts(proposals, proposer.propose(number, bank.candidates))
    schemes = read_facts(proposals)
    with progress(len(schemes), "schemes", label=f"round {number}", shown=workspace.runtime.progress) as bar:
        for i, proposal in enumerate(schemes):
            if not bank.holds(number, i):
                work = workspace.work / f"trial_{number}_{i}"
                candidate = tried(evaluator, number, i, Proposal(*proposal), work)
                bank.add(candidate)
                shutil.rmtree(work, ignore_errors=True)
                workspace.log({"candidate_loss": candidate.loss, "best_loss": bank.best.loss}, len(bank.candidates))
            bar.update()


def tried(evaluator: Evaluator, number: int, i: int, proposal: Proposal, work: Path) -> Candidate:
    """A proposal with what came of it."""
    pruned = evaluator.prune(proposal.scheme)
    loss = evaluator.loss(pruned.net, work)
    return Candidate(
        round=number,
        candidate=i,
        proposer=proposal.proposer,
        proposed=proposal.scheme,
        scheme=scheme_of(pruned.gone, evaluator.ranking),
        macs=pruned.cost.macs,
        limit_macs=evaluator.target.limit_macs,
        loss=loss,
    )


class Starts:
    """Proposes what importance methods would do."""

    def __init__(self, methods: Sequence[settings.Importance], evaluator: Evaluator) -> None:
        self.methods, self.evaluator = methods, evaluator

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
        return [Proposal(method.method, self.scheme(method)) for method in self.methods]

    def scheme(self, method: settings.Importance) -> dict[str, float]:
        target, anatomy = self.evaluator.target, self.evaluator.anatomy
        gone = too_many(anatomy, ranked(method, target, anatomy), target.limit_macs)
        return scheme_of(gone, self.evaluator.ranking)


class Draws:
    """Proposes schemes at random, whatever came of others."""

    def __init__(self, evaluator: Evaluator, count: int) -> None:
        self.evaluator, self.count = evaluator, count

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
        blocks = list(blocks_of(self.evaluator.ranking))
        generator = numpy_generator(self.evaluator.target.seed, Stream.PRUNING, *CONTROL_KEY)
        return [Proposal("random", random_scheme(blocks, generator)) for _ in range(self.count)]


class Recorded:
    """Proposes what a recorded bank holds, if it is of this model and limit: the same search again, without asking.

    Raises UserError where it is of another one.
    """

    def __init__(self, path: Path, evaluator: Evaluator) -> None:
        self.rounds = rounds_of(read_bank(path))
        for one in (one for found in self.rounds.values() for one in found):
            place = f"{path}: candidate {one.candidate} of round {one.round}"
            if one.limit_macs != evaluator.target.limit_macs:
                raise UserError(
                    f"{place} was made for a limit of {one.limit_macs}, here it is {evaluator.target.limit_macs}"
                )
            blocks = blocks_of(evaluator.ranking)
            if set(one.proposed) != set(blocks):
                raise UserError(f"{place} is of another network: its blocks are {', '.join(one.proposed)}")
            gone = too_many(
                evaluator.anatomy, scaled_order(evaluator.ranking, one.proposed), evaluator.target.limit_macs
            )
            if (macs := evaluator.anatomy.macs(removed_channels(evaluator.anatomy, gone))) != one.macs:
                raise UserError(
                    f"{place} is of another model: it had {one.macs} multiply–accumulates, here it has {macs}"
                )

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
        return [Proposal(one.proposer, one.proposed) for one in self.rounds[round_]]
