"""The picture that is this study's own, and what stands beside all of them."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from studies.interference.findings import STEPS, Summary
from unequal.reporting import overview
from unequal.reporting.figures import INK, RED, SOFT
from unequal.reporting.tables import label

#: Picture → heading and caption.
CAPTIONS = {
    **{name: overview.CAPTIONS[name] for name in ("loss_spaces", "slots", "samplers")},
    "interference_summary": (
        "Interference in one figure",
        f"Mean relative change of the slots' training losses in {STEPS} steps, ± standard error of paired draws: of "
        "slots drawn more often than uniformly, of those drawn less often, and of all. Scale linear below 1 %.",
    ),
    "loss_changes": (
        "Where retraining lowers the loss, and where it raises it",
        "Training loss after training on, as a multiple of the base's, on the same images and noise; bands: ± 1 "
        "paired standard error.",
    ),
}


def caption(picture: str) -> tuple[str, str]:
    """Heading and caption of a picture; a matrix of interference has the name of its recipe."""
    recipe = picture.removeprefix("interference_")
    matrix = (f"Interference of slots: recipe {label(recipe)}", overview.CAPTIONS["interference"][1])
    return CAPTIONS.get(picture, matrix)


def summary_figure(figure: Figure, summaries: Sequence[Summary]) -> None:
    """Change in STEPS steps of favoured and of neglected slots, a row a way of training."""
    axes = figure.subplots()
    axes.axvline(0, color=INK, linewidth=1)
    kinds = {"favoured": (INK, "o", "favoured slots"), "neglected": (RED, "s", "neglected slots")}
    for kind, (ink, marker, text) in {**kinds, "every": (SOFT, "D", "all slots")}.items():
        drawn = [
            (row, one.training.steps, getattr(one, kind)) for row, one in enumerate(summaries) if getattr(one, kind)
        ]
        rows, values = [row for row, *_ in drawn], [100 * one.over(steps / STEPS).value for _, steps, one in drawn]
        errors = [100 * one.over(steps / STEPS).stderr for _, steps, one in drawn]
        axes.errorbar(values, rows, xerr=errors, fmt=marker, color=ink, markersize=5, capsize=3, label=text)
    axes.set_xscale("symlog", linthresh=1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "−").replace("+0", "0")))
    axes.set_yticks(range(len(summaries)), [f"{label(one.name)}, lr {one.training.lr:g}" for one in summaries])
    axes.invert_yaxis()
    axes.set_xlabel(f"mean change of a slot's training loss in {STEPS} steps")
    axes.legend(loc="best")
