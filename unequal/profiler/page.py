"""A profile as one HTML page: losses over timesteps and over log-SNR, and where another model has learned or lost."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.measures.loss_profile import SPACES, space_factor
from unequal.profiler.document import Change, Losses, Split, Timesteps
from unequal.reporting.figures import INK, RED, SOFT, log_scale, log_timesteps, save
from unequal.reporting.page import Drawing, Picture, Report, Table, render

#: Rows of the table: parts of the measured timesteps.
PARTS = 10
COLOURS = {"train": INK, "held_out": RED}
NAMES = {"train": "training images", "held_out": "held-out images"}
#: Standard errors by which a change has to differ from 0 to be told as one.
TOLD_APART = 2.0


def page(document: Timesteps) -> str:
    """The whole page."""
    report = Report(
        title=f"What {document.model} loses at its timesteps",
        lead=" ".join(lead(document)),
        tables=[
            losses_table(document),
            *([] if document.compared is None else [change_table(document, document.compared)]),
        ],
        conditions=conditions(document),
        drawings=drawings(document),
        rows={},
    )
    with tempfile.TemporaryDirectory() as folder:
        drawn = [
            Picture(save(Path(folder) / f"{one.name}.png", one.size, one.draw), one.heading, one.caption)
            for one in report.drawings
        ]
        return render(report, drawn)


def lead(document: Timesteps) -> Iterator[str]:
    """What was measured, in a few sentences."""
    yield f"A {document.family} that predicts {document.prediction}, at {len(document.timesteps)} timesteps."
    mean = np.array(document.judged.mean)
    low, high = document.timesteps[int(mean.argmin())], document.timesteps[int(mean.argmax())]
    yield f"Its loss of ε at t = {high} is {mean.max() / mean.min():.3g} times that at t = {low}."
    if "held_out" not in document.losses:
        yield "Nothing is held out: images that it was trained on may be known by heart, which no figure here tells."
    if (found := document.compared) is not None:
        yield f"Beside it, on the same draws: {found.model}."


def losses_table(document: Timesteps) -> Table:
    """Means over parts of the timesteps, in all spaces."""
    columns = [
        "timesteps",
        "λ = ln SNR",
        *(f"{space}, {NAMES[split]}" for split in document.losses for space in SPACES),
    ]
    rows = []
    for part in parts(document):
        cells = [span(document, part), *(told(document, losses, part, space) for losses, space in pairs(document))]
        rows.append((f"{document.timesteps[part[0]]} … {document.timesteps[part[-1]]}", *cells))
    note = (
        "Mean squared errors per value, ± the standard error over draws. Those of v and x0 are those of ε times a "
        "factor of the timestep alone."
    )
    return Table("Losses", columns, rows, note)


def pairs(document: Timesteps) -> Iterator[tuple[Losses, str]]:
    """Splits × spaces, in the order of the table."""
    yield from ((losses, space) for losses in document.losses.values() for space in SPACES)


def parts(document: Timesteps) -> list[np.ndarray]:
    """Numbers of the measured timesteps, in at most PARTS parts."""
    count = len(document.timesteps)
    return np.array_split(np.arange(count), min(PARTS, count))


def span(document: Timesteps, part: np.ndarray) -> str:
    """Log-SNR at the first and the last timestep of a part."""
    log_snr = document.noise_schedule.snr.log()[[document.timesteps[part[0]], document.timesteps[part[-1]]]]
    return " … ".join(f"{one:.2f}" for one in log_snr.tolist()).replace("-", "−")


def told(document: Timesteps, losses: Losses, part: np.ndarray, space: str) -> str:
    """Mean over a part and its standard error: timesteps have draws of their own."""
    factor = factors(document, space)[part]
    mean = (np.array(losses.mean)[part] * factor).mean()
    error = np.sqrt(np.square(np.array(losses.stderr)[part] * factor).sum()) / len(part)
    return f"{mean:.4g} ± {error:.1g}"


def factors(document: Timesteps, space: str) -> np.ndarray:
    """From errors of ε to those of a space, at the measured timesteps."""
    return space_factor(space, document.noise_schedule)[list(document.timesteps)]


def change_table(document: Timesteps, found: Change) -> Table:
    """Where the other model has learned and what it has lost."""
    rows = []
    for part in parts(document):
        cells = [verdict(found, split, part) for split in found.relative]
        rows.append((f"{document.timesteps[part[0]]} … {document.timesteps[part[-1]]}", span(document, part), *cells))
    note = (
        f"{found.model} against {document.model}, on the same images and noise: the mean of the relative changes of "
        f"the loss ± its standard error over paired draws. learned, lost: beyond {TOLD_APART:g} standard errors, each "
        "row by itself; this says nothing of what another training would come to."
    )
    columns = ["timesteps", "λ = ln SNR", *(f"change, {NAMES[split]}" for split in found.relative)]
    return Table("Where it learned and what it lost", columns, rows, note)


def verdict(found: Change, split: Split, part: np.ndarray) -> str:
    """The change over a part, in per cent, and whether it stands out of its error."""
    errors = np.array(found.relative_stderr[split])[part]
    mean, error = np.array(found.relative[split])[part].mean(), np.sqrt(np.square(errors).sum()) / len(part)
    word = "" if abs(mean) <= TOLD_APART * error else ", learned" if mean < 0 else ", lost"
    return f"{100 * mean:+.2f} ± {100 * error:.2g} %{word}".replace("-", "−")


def conditions(document: Timesteps) -> dict[str, str]:
    """What the figures mean nothing without."""
    kind = document.schedule.kind.replace("_", " ")
    images = ", ".join(f"{count} {NAMES[split]}" for split, count in document.images.items())
    return {
        "model": document.model,
        "schedule": f"{kind}, T = {document.noise_schedule.timesteps}",
        "prediction": document.prediction,
        "images": images if "held_out" in document.images else f"{images}; nothing is held out",
        "what the network sees": " × ".join(map(str, document.shape)),
        "draws at each timestep": str(document.draws),
        "seed": str(document.seed),
    }


def drawings(document: Timesteps) -> list[Drawing]:
    """All pictures."""
    found = [
        Drawing(
            "losses",
            (11.0, 6.4),
            partial(draw_losses, document=document),
            "Losses in all spaces",
            "Above over timesteps counted from 1, below over λ = ln SNR, which falls towards the noise; bands are ± 1 "
            "standard error.",
        )
    ]
    if document.compared is None:
        return found
    draw = partial(draw_change, document=document, found=document.compared)
    caption = "The other model's loss on the same draws; below 0 it has learned. Bands are ± 1 standard error."
    return [*found, Drawing("change", (11.0, 3.6), draw, "Change", caption)]


def draw_losses(figure: Figure, document: Timesteps) -> None:
    """A column a space, a row an axis."""
    panels = figure.subplots(2, len(SPACES))
    for column, space in enumerate(SPACES):
        factor = factors(document, space)
        for row, axes in enumerate(panels[:, column]):
            x = along(axes, document, over_time=row == 0)
            for split, losses in document.losses.items():
                mean, error = np.array(losses.mean) * factor, np.array(losses.stderr) * factor
                band(axes, x, mean, error, COLOURS[split], NAMES[split], np.maximum)
            log_scale(axes, "{:g}")
            axes.set_title(f"error of {space}" if row == 0 else "", loc="left", fontsize=10)
    panels[0, 0].legend(loc="best", fontsize=8)


def draw_change(figure: Figure, document: Timesteps, found: Change) -> None:
    """Over timesteps, and over log-SNR."""
    for axes, over_time in zip(figure.subplots(1, 2, sharey=True), (True, False), strict=True):
        x = along(axes, document, over_time)
        axes.axhline(0, color=SOFT, linewidth=1)
        for split in found.relative:
            mean, error = (100 * np.array(table[split]) for table in (found.relative, found.relative_stderr))
            band(axes, x, mean, error, COLOURS[split], NAMES[split])
        axes.set_ylabel("change of the loss in %" if over_time else "")
    axes.legend(loc="best", fontsize=8)


def along(axes: Axes, document: Timesteps, over_time: bool) -> np.ndarray:
    """Where the measured timesteps lie on an axis, which is made for them."""
    if over_time:
        log_timesteps(axes, document.noise_schedule.timesteps)
        axes.set_xlabel("timestep, counted from 1")
        return np.array(document.timesteps) + 1.0
    axes.invert_xaxis()
    axes.set_xlabel("λ = ln SNR")
    return document.noise_schedule.snr.log().numpy()[list(document.timesteps)]


def band(
    axes: Axes,
    x: np.ndarray,
    mean: np.ndarray,
    error: np.ndarray,
    colour: str,
    label: str,
    above: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> None:
    """A line with its standard error; on a log axis `above` keeps the band from 0."""
    low = mean - error if above is None else above(mean - error, mean / 10)
    axes.plot(x, mean, color=colour, linewidth=1.5, label=label)
    axes.fill_between(x, low, mean + error, color=colour, alpha=0.2, linewidth=0)
