"""All ways beside the control, for each number of calls, and what fresh bases say of the first, on one page."""

from dataclasses import asdict

from studies.few_steps.figures import drawings
from studies.few_steps.findings import confirmed as on_fresh_bases
from studies.few_steps.findings import families, first, read_again, read_found
from studies.few_steps.settings import Sweep
from studies.few_steps.tables import (
    confirmation_rows,
    confirmation_table,
    family_table,
    first_sentence,
    markdown,
    score_rows,
    scores_table,
)
from unequal.files import write_bytes
from unequal.pipeline.stage import Run, stage
from unequal.report.page import Report, publish
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    subject: str
    schedule: Schedule
    sweep: Sweep


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's page, its findings and what its README says of them."""
    found = read_found(run.input("results/scores"), settings.sweep)
    again = read_again(run.input("results/again"), run.input("results/first.json"), settings.sweep)
    judged, confirmed = families(found), on_fresh_bases(found, again)
    lead = first_sentence(found, settings.subject)
    report = Report(
        title=settings.sweep.question,
        lead=lead,
        tables=[
            scores_table(found),
            confirmation_table(confirmed, found, again),
            *(family_table(one, found) for one in judged),
        ],
        conditions={key.replace("_", " "): str(value) for key, value in found.any["conditions"].items()},
        drawings=drawings(found, settings.schedule.tables()),
        rows={"scores": score_rows(found), "confirmation": confirmation_rows(found, again)},
    )
    publish(run, report)
    firsts = {calls: first(found, calls) for calls in settings.sweep.calls}
    write_bytes(run.output("results/findings.md"), markdown(judged, confirmed, found, firsts, lead).encode())
    words = {
        str(one.calls): {way: asdict(finding) for way, finding in one.found.items()} | {"A/A": asdict(one.repeated)}
        for one in judged
    }
    fresh = {str(calls): {"way": firsts[calls]} | asdict(one) for calls, one in confirmed.items()}
    told = {"first": lead, "delta": settings.sweep.delta, "calls": words, "confirmed": fresh}
    changes = {f"change_{one.calls}_{way}": finding.change for one in judged for way, finding in one.found.items()}
    run.metrics("results/findings.json", told, headline=changes)


if __name__ == "__main__":
    main()
