"""Gate of the pipeline: params.yaml as a whole is sound, before anything runs."""

from unequal.files import write_json
from unequal.pipeline.stage import Run, stage
from unequal.settings.params.pipeline import read_pipeline_params
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """None of its own: the gate reads the whole file as a dependency."""


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Refuse a params.yaml with unknown keys, wrong values or combinations that cannot be."""
    read_pipeline_params(run.input("params.yaml"))
    # The same content at each pass: later stages wait for the gate, but do not go stale with it.
    write_json(run.output("artifacts/params_checked.json"), {"params.yaml": "sound"})


if __name__ == "__main__":
    main()
