"""The embedded decision maker: Optuna's tree-structured Parzen estimator over the blocks' ratios."""

from collections.abc import Sequence

from unequal.pruning.bank import Candidate, Proposal
from unequal.randomness import Stream, torch_seed

#: Schemes of the bank from which on the estimator has its say, so that the first round goes by what it starts from.
STARTUP = 1


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
