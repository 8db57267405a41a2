"""Measure a trained model of super-resolution, such as guided-diffusion's upsampler, as the study measures its arms."""

from pathlib import Path

import click
import torch

from studies.contribution.measure_ranges import Settings, measured_runs
from studies.contribution.report_ranges import QUALITIES, RUNS
from unequal.data.prepared import PreparedData
from unequal.errors import say
from unequal.pipeline.program import errors_reported
from unequal.runtime.files import write_json
from unequal.sampling.ensemble import Ensemble

FILE = click.Path(path_type=Path)
#: Sampling, ranges and the injected error are the study's own.
PARAMS = Path(__file__).with_name("params.yaml")


@click.command()
@click.argument("model", type=FILE)
@click.option("--data", type=FILE, default="artifacts/data", show_default=True, help="Prepared images.")
@click.option("--images", type=click.IntRange(2), default=2, show_default=True, help="Held-out images to enlarge.")
@click.option("--batch-size", type=click.IntRange(1), default=8, show_default=True, help="Of the mean of samples.")
@click.option("--out", type=FILE, default="results/ranges.json", show_default=True, help="Where the figures go.")
def main(model: Path, data: Path, images: int, batch_size: int, out: Path) -> None:
    """Measure what ranges of timesteps contribute to images that MODEL, a model's folder, enlarges.

    All runs of an image are sampled together: two a range, and one more.
    """
    with errors_reported("measure_model"):
        settings = Settings.read(PARAMS)
        chosen = settings.model_copy(
            update={
                "study": settings.study.model_copy(update={"images": images}),
                "sampling": settings.sampling.model_copy(update={"batch_size": batch_size}),
            }
        )
        prepared = PreparedData.open(data)
        loaded = Ensemble.load(model, "cuda" if torch.cuda.is_available() else "cpu")
        runs = measured_runs(loaded, prepared, chosen, settings.seed, str(model))
        write_json(out, {"model": loaded.record.name, "images": images, "runs": runs})
        for run in runs:
            values = ", ".join(f"{title} {run[name]:.3g}" for name, title in QUALITIES.items())
            say(f"{RUNS[run['run']].format(run['range'])}: {values}")
        say(out)


if __name__ == "__main__":
    main()
