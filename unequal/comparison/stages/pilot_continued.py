"""Carry a variant's plan out on the base of a block of the pilot, once for each try."""

from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.comparison.settings import Try
from unequal.comparison.training import try_plan
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Plan
from unequal.settings.strict import key
from unequal.settings.training import Training


class Settings(MeasuringSettings):
    tries: dict[str, Try] = key("pilot.tries")
    share: float = key("pilot.share")
    training: Training
    plan: Plan = key("plans.{arm}")


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train and measure an arm once for each try."""
    measuring = Measuring.of(run, settings, block, "choice")
    base = run.input(f"artifacts/pilot/base/block_{block}")
    run.source(f"plans/{arm}")
    tried = try_plan(measuring, settings.training, arm, settings.plan, settings.tries, settings.share, base)
    run.metrics(f"results/pilot/{arm}/block_{block}.json", {"arm": arm, "block": block, "tries": tried})
