"""Subcommands of the pipeline: arguments and options.

Implementations are imported inside each subcommand, so that help appears at once.
"""

import os
from pathlib import Path
from typing import Any

import click

from unequal.errors import UserErrors, say

FILE = click.Path(path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def entered(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    """Enter the folder that an argument names, and return its params file; a file stays as it is."""
    if not path.is_dir():
        return path
    os.chdir(path)
    return Path("params.yaml")


params_file = click.argument(
    "params_file", type=FILE, default="params.yaml", metavar="[FOLDER | FILE]", callback=entered
)


@click.command()
@params_file
def check(params_file: Path) -> None:
    """Check params.yaml as a whole.

    Problems are listed, a line each: wrong values first, then combinations, then what the data lack.
    """
    say(f"{params_file}: reads the settings, and the images, labels and weights that they name …")
    from unequal.cli.survey import refuse_unreadable
    from unequal.pipeline.params_files import check_params
    from unequal.runtime.processes import threads
    from unequal.settings.params import Params

    with threads(1):  # one image is too little to share
        params = check_params(params_file, refuse_unreadable)
        say(f"{params_file}: sound")
        if isinstance(params, Params) and params.network.pretrained is None:
            from unequal.cli.estimate import data_line, extent

            say(data_line(params))
            say(f"cost: {extent(params)}", f"  time: `unequal estimate {params_file}` measures it here")


@click.command()
@click.argument("folder", type=FILE)
@click.option("--images", type=FOLDER, help="Your folder of images; subfolders are labels.")
@click.option("--size", type=click.Choice(["16", "32", "64", "128"]), help="Height and width, in pixels.")
@click.option("--preset", help="A preset as it stands, by name; without --images.")
@click.option("--gpu", is_flag=True, help="Choose a network for one GPU; without, one for a trial on a CPU.")
@click.option("--flow", is_flag=True, help="Rectified flow that predicts the velocity; without, DDPM's noise.")
@click.option(
    "--prediction",
    type=click.Choice(["epsilon", "v_prediction", "sample"]),
    help="Without --flow.  [default: epsilon]",
)
@click.option(
    "--method",
    type=click.Choice(["uniform", "min_snr", "logit_normal"]),
    help="Timesteps and loss weight.  [default: min_snr with --flow, else uniform]",
)
@click.option("--batch-size", type=click.IntRange(1), help="Images an optimizer step.  [default: by network]")
@click.option("--inception", type=FILE, help="Weights of Inception for FID's features, a file.")
@click.option("--dinov2", type=FOLDER, help="Weights of DINOv2 for FID's features, a folder.")
@click.option("--all-methods", is_flag=True, help="Train every method's models; without, one good model.")
@click.option("--own-graph", is_flag=True, help="Write a dvc.yaml to edit, which stays as it is.")
def init(folder: Path, images: Path | None, size: str | None, preset: str | None, **options: Any) -> None:
    """Make FOLDER for runs of your own.

    Its settings are fitted to a folder of images, or are a preset's. Both engines run there: `cd FOLDER`, then
    `snakemake --cores all` or `dvc repro`.
    """
    if (images is None) == (preset is None) or (images is None) != (size is None):
        raise click.UsageError("allowed: --images and --size, or --preset")
    say(f"{images or preset}: reads the {'images' if images else 'settings'} …")
    from unequal.cli.init import FolderRequest

    for line in FolderRequest(folder, images, int(size) if size else None, preset, **options).make():
        say(line)


@click.command("try")
@params_file
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True, help="Minutes to aim for."
)
@click.option("--cores", type=click.IntRange(1), help="Stages that run side by side.  [default: all cores]")
def try_out(params_file: Path, minutes: float, cores: int | None) -> None:
    """Run all stages with small budgets.

    They run in a folder of their own, below tries/. Network, batches and data stay, so that what would fail later fails
    now. params.yaml is not changed.
    """
    say(f"{params_file}: reads the settings, and the images, labels and weights that they name …")
    from unequal.cli.trial import try_out as run_trial

    run_trial(params_file, minutes, cores or len(os.sched_getaffinity(0)))


@click.command()
@params_file
def estimate(params_file: Path) -> None:
    """Estimate time, disk, memory and FLOPs of a run.

    Times are measured on this machine, by a few training steps and samples.
    """
    say(f"{params_file}: runs a few training steps and samples to measure this machine …")
    from unequal.cli.estimate import report
    from unequal.settings.params import Params

    report(Params.read(params_file))


@click.command()
@click.argument("recipes", nargs=-1, required=True)
@click.option("--params", default="params.yaml", show_default=True, type=FILE)
@click.option("--target", default="weights.png", show_default=True, type=FILE, help="The picture.")
def weights(recipes: tuple[str, ...], params: Path, target: Path) -> None:
    """Draw the effective weighting of timesteps of RECIPES.

    That is density × loss weight. The picture has the density, the weight and their product over t, and over λ = ln
    SNR, where schedules can be compared. A recipe that trains inside ranges has a curve for each group or slot. Learned
    densities and weights are read from finished trainings.
    """
    from unequal.cli.weighting import draw_recipes

    say(*draw_recipes(recipes, params, target))


@click.command()
@click.argument("model", default="best", metavar="[MODEL]")
@click.option("--count", type=click.IntRange(1), default=64, show_default=True, help="Number of pictures.")
@click.option("--out", type=FILE, default="samples", show_default=True, help="A new folder for the PNG files.")
@click.option("--grid", is_flag=True, help="One picture with all samples, instead of a file each.")
@click.option("--steps", type=click.IntRange(1), help="Sampling steps.  [default: sampling.steps]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the noise.")
@click.option("--label", type=click.IntRange(0), help="Class of all pictures, for a class-conditional model.")
@click.option("--interpolate", type=click.IntRange(0), help="Another seed: show the way from --seed to it.")
@click.option("--params", default="params.yaml", show_default=True, type=FILE)
def sample(model: str, out: Path, grid: bool, params: Path, **options: int | None) -> None:
    """Sample pictures of a model or a set of experts.

    MODEL is its name or folder; default: `best`, by FID. For equal seeds and steps these are the pictures that FID is
    computed from, but for rounding. With --interpolate, they lead from the first noise of --seed to the first noise of
    the other seed.
    """
    from unequal.cli.sample import PictureRequest, write_pictures

    say(write_pictures(PictureRequest(model, params=params, **options), out, grid))  # type: ignore[arg-type]


@click.command()
@click.argument("name")
@click.argument("target", type=FILE)
def export(name: str, target: Path) -> None:
    """Export a model or a set of experts, to diffusers if it can.

    NAME is best, base, experts_pruned …; TARGET is a new folder. A model card comes with it, and the Python that loads
    it is printed.
    """
    from unequal.cli.export import export as export_to

    export_to(name, target)


@click.command()
@click.argument("model", type=FILE)
@click.argument("target", type=FILE)
@click.option("--width", type=float, required=True, help="Relative width: 0.05, 0.1 …; at most 0.2887.")
def average(model: Path, target: Path, width: float) -> None:
    """Average a model's weights over another width.

    MODEL is its folder; TARGET, a new folder, gets the model with that average.
    """
    from unequal.cli.export import average as average_to

    share = average_to(model, width, target)
    say(f"{target}: width {width:g}, met but for {share:.1%} of its profile")


@click.command()
@params_file
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True, help="Port of the server.")
@click.option("--browser/--no-browser", default=True, help="Open the address, or print it only.")
def ui(params_file: Path, port: int, browser: bool) -> None:
    """Open MLflow's pages of the runs; Ctrl-C ends the server."""
    from unequal.cli.pages import open_pages

    open_pages(params_file, port, browser)


@click.command()
@click.argument("commits", nargs=-1)
@click.option("--out", default="dvc_plots/index.html", show_default=True, type=FILE, help="The page.")
def plots(commits: tuple[str, ...], out: Path) -> None:
    """Draw DVC's plots as one page that needs no network.

    With COMMITS these are compared, as by `dvc plots diff`.
    """
    from unequal.cli.pages import write_plots

    write_plots(out, commits)


@click.command()
@click.argument("stages", nargs=-1)
def accept(stages: tuple[str, ...]) -> None:
    """Accept that an edit of the code changes no result of STAGES, or of any: both engines then leave them as they are.

    A stage in which more than its code has changed is not accepted.
    """
    from unequal.pipeline.fingerprint import accept

    accepted, refused = accept(Path("dvc.yaml"), stages)
    say(*(f"accepted: {line}" for line in accepted), f"{len(accepted)} stages accepted")
    if refused:
        raise UserErrors([f"not accepted: {line}" for line in refused])


@click.command()
@click.argument("kind", default="pipeline")
@click.option("--out", type=FILE, help="A file to write.  [default: print it]")
def schema(kind: str, out: Path | None) -> None:
    """Print the JSON schema of params files, for editors.

    KIND is `pipeline` (default) or `compare`, for comparisons.
    """
    from unequal.pipeline.params_files import schema_of
    from unequal.runtime.files import write_bytes

    text = schema_of(kind)
    if out is None:
        say(*text.removesuffix("\n").split("\n"))
    else:
        write_bytes(out, text.encode())
