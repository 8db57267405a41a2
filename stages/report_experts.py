"""Set a study's plans for experts beside the paper's method, and decide what paper 3 claims of them, on one page."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.files import write_bytes, write_csv
from unequal.pipeline.stage import Run, stage
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.figures import save
from unequal.reporting.page import Picture, Table, render
from unequal.reporting.tdc.claims import CLAIMS, verdicts
from unequal.reporting.tdc.figures import pictures_of
from unequal.reporting.tdc.findings import Found, read_found
from unequal.reporting.tdc.tables import main_table, plan_rows, rounds_table, seconds_table
from unequal.reporting.verdicts import verdict_document
from unequal.settings.plan import Experts, Plan
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
def main(run: Run, settings: Settings, study: str) -> None:
    """Write a study's report."""
    if study not in CLAIMS:
        raise UserError(f"experts.studies: '{study}' has no report; allowed: {', '.join(CLAIMS)}")
    data, seeds = PreparedData.open(run.input("artifacts/data")), settings.experts.seeds
    found = read_found(run.input, study, settings.plans, settings.experts.plans, seeds)
    decided, folder = verdicts(found), run.output(f"results/{study}/pictures")
    shown = [drawn(folder / f"{name}.png", found, *picture) for name, picture in pictures_of(study).items()]
    first = next(iter(found.outcomes.values())).trials[0]
    conditions = scoring_conditions(data.facts, first) | {"training seeds": ", ".join(map(str, seeds))}
    lead = f"{len(found.outcomes)} plans, each carried out from {len(seeds)} training seeds, from one base."
    page = render(TITLES[study], lead, decided, NOTE, tables(found), conditions | empty_groups(found), shown)
    write_bytes(run.output(f"results/{study}/report.html"), page.encode())
    write_csv(run.output(f"results/{study}/plans.csv"), plan_rows(found))
    document = verdict_document(decided)
    headline = {f"{study}_claims_{word}": n for word, n in document["counts"].items()}
    run.metrics(f"results/{study}/verdicts.json", document, headline)
    run.parent_artifacts([f"results/{study}/report.html", f"results/{study}/pictures"])


def drawn(
    path: Path, found: Found, size: tuple[float, float], draw: Callable[[Figure, Found], None], *texts: str
) -> Picture:
    """A picture of the page, with its heading and caption."""
    return Picture(save(path, size, lambda figure: draw(figure, found)), *texts)


def tables(found: Found) -> list[Table]:
    """All tables of the page."""
    more = {
        "overall": lambda: [seconds_table(found)],
        "alone": lambda: [rounds_table(found["proxy"])],
    }
    return [main_table(found, "Plans"), *more.get(found.study, list)()]


def empty_groups(found: Found) -> dict[str, str]:
    """Plans whose groups get no step of sampling, and so take no part in a score."""
    told = [f"{one.unsampled} of {one.label}" for one in found.outcomes.values() if one.unsampled]
    return {"groups without a step": ", ".join(told)} if told else {}


if __name__ == "__main__":
    main()
