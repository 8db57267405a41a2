"""Set a question's plans for experts beside the paper's method, and decide what paper 3 claims of them, on one page."""

from collections.abc import Callable

from matplotlib.figure import Figure

from studies.tdc.claims import CLAIMS, verdicts
from studies.tdc.figures import pictures_of
from studies.tdc.findings import Found, read_found
from studies.tdc.settings import Experts
from studies.tdc.tables import main_table, plan_rows, rounds_table, seconds_table
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.pipeline.stage import Run, stage
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.page import Drawing, Report, Table
from unequal.reporting.publish import publish
from unequal.settings.plan import Plan
from unequal.settings.strict import StageSettings

TITLES = {
    "overall": "TDC training: one stage or two, and what they cost",
    "schedules": "TDC training: who may take how many FLOPs",
    "groups": "TDC training: how many groups",
    "ratios": "TDC training: how small the smallest model",
    "methods": "TDC training: which pruning",
    "alone": "Pruning alone",
    "budgets": "TDC training: how many images",
}
NOTE = (
    "± of a FID is the standard deviation over training seeds: other pruning, other batches and other noise, from one "
    "base and on the same data. Plans share their seeds, so differences are judged in pairs; how much another base "
    "would change them is not in them."
)


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    experts: Experts
    plans: dict[str, Plan]


@stage(Settings)
def main(run: Run, settings: Settings, question: str) -> None:
    """Write a question's report."""
    if question not in CLAIMS:
        raise UserError(f"experts.questions: '{question}' has no report; allowed: {', '.join(CLAIMS)}")
    data, seeds = PreparedData.open(run.input("artifacts/data")), settings.experts.seeds
    found = read_found(run.input, question, settings.plans, settings.experts.plans, seeds)
    first = next(iter(found.outcomes.values())).trials[0]
    conditions = scoring_conditions(data.facts, first) | {"training seeds": ", ".join(map(str, seeds))}
    report = Report(
        title=TITLES[question],
        lead=f"{len(found.outcomes)} plans, each carried out from {len(seeds)} training seeds, from one base.",
        verdicts=verdicts(found),
        note=NOTE,
        tables=tables(found),
        conditions=conditions | empty_groups(found),
        drawings=drawings(found),
        rows={"plans": plan_rows(found)},
    )
    publish(run, report, f"results/{question}", f"{question}_claims")


def drawings(found: Found) -> list[Drawing]:
    """All pictures, in the order of the page."""

    def of(draw: Callable[[Figure, Found], None]) -> Callable[[Figure], None]:
        return lambda figure: draw(figure, found)

    return [Drawing(name, size, of(draw), *texts) for name, (size, draw, *texts) in pictures_of(found.question).items()]


def tables(found: Found) -> list[Table]:
    """All tables of the page."""
    more = {
        "overall": lambda: [seconds_table(found)],
        "alone": lambda: [rounds_table(found["proxy"])],
    }
    return [main_table(found, "Plans"), *more.get(found.question, list)()]


def empty_groups(found: Found) -> dict[str, str]:
    """Plans whose groups get no step of sampling, and so take no part in a score."""
    told = [f"{one.unsampled} of {one.label}" for one in found.outcomes.values() if one.unsampled]
    return {"groups without a step": ", ".join(told)} if told else {}


if __name__ == "__main__":
    main()
