"""Choose the learning rate of a variant, by the geometric mean of an endpoint over the seeds that tried it."""

import numpy as np

from unequal.errors import UserError
from unequal.experiments.declaration import Rates
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import read_json
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    rates: Rates = key("experiment.rates")


@stage(Settings)
def main(run: Run, settings: Settings, variant: str) -> None:
    """Choose the factor of the learning rate; a rate whose training diverged is not chosen."""
    rates, means = settings.rates, list[float]()
    for number in range(len(rates.factors)):
        files = map(run.input, [f"results/endpoints/{variant}_rate_{number}/seed_{seed}.json" for seed in rates.seeds])
        values = [read_json(file).get("endpoints", {}).get(rates.by, np.inf) for file in files]
        means.append(float(np.exp(np.mean(np.log(values)))))
    if not np.isfinite(means).any():
        raise UserError(f"experiment.rates: '{variant}' diverged at all of them; allowed: lower ones")
    best = rates.factors[int(np.argmin(means))]
    at_edge = best in (min(rates.factors), max(rates.factors))
    tried = zip(rates.factors, means, strict=True)
    tried = {f"{factor:g}": mean if np.isfinite(mean) else "diverged" for factor, mean in tried}
    run.metrics(f"artifacts/rates/{variant}.json", {"factor": best, "at_edge": at_edge, rates.by: tried})
