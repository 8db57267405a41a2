"""Write a page that shows every variant next to its control, with verdicts, from the trainings' figures alone."""

from unequal.comparison.report import ReportSettings, write_report
from unequal.pipeline.stage import Run, stage


@stage(ReportSettings)
def main(run: Run, settings: ReportSettings) -> None:
    """Write the page and the verdicts."""
    write_report(run, settings)
