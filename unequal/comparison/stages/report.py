"""Show every arm next to its control, with verdicts, from the figures of the trainings alone, on one page."""

from unequal.comparison.report import ReportSettings, write_report
from unequal.pipeline.stage import Run, stage


@stage(ReportSettings)
def main(run: Run, settings: ReportSettings) -> None:
    """Write the page and the verdicts."""
    write_report(run, settings)


if __name__ == "__main__":
    main()
