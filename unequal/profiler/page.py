"""The page of a profile: losses over timesteps, and changes by another model."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unequal.errors import UserError
from unequal.evaluation.loss_profile import SPACES, LossProfile, relative_change, space_factor
from unequal.profiler.document import Losses, SplitName, Timesteps
from unequal.profiler.measure import ProfileConfig, ProfileResult
from unequal.report.drawing import INK, RED, SOFT, log_scale
from unequal.report.formatting import plus_minus
from unequal.report.page import Drawing, Report, Table, render
from unequal.timesteps.partition import TABLE_1, TimestepRange, equal_sums

TITLES: dict[SplitName, str] = {"train": "training images", "held_out": "held-out images"}
COLOURS: dict[SplitName, str] = {"train": INK, "held_out": RED}
#: Space → name of its squared error.
ERRORS = {"epsilon": "error of ε", "v": "error of v", "x0": "error of x0"}
#: Parts of the timesteps in the table of changes, and standard errors from which on a change is distinguishable.
PARTS, DISTINGUISHABLE = 8, 3.0
BAND = 2.0
#: Ratio of the highest to the lowest loss from which on an axis shows powers of ten alone.
DECADES = 100


def page(found: ProfileResult, config: ProfileConfig) -> str:
    """Render the page, with its pictures inside."""
    report = Report(
        title=f"Timesteps of {found.document.model}",
        lead=lead(found.document),
        tables=list(tables(found)),
        conditions=conditions(found.document, config),
        drawings=list(drawings(found)),
        rows={},
    )
    with tempfile.TemporaryDirectory() as folder:
        return render(report, Path(folder))


def lead(document: Timesteps) -> str:
    """The main result in a few sentences."""
    total = document.noise_schedule.timesteps
    ratio = scaled(document.judged, "epsilon", document).largest_over_smallest
    text = (
        f"The loss of the {document.family} varies by a factor of {ratio:.3g} over timesteps: "
        f"{len(document.timesteps)} of {total} measured, {document.draws} draws each."
    )
    held_out = "" if "held_out" in document.losses else " Without held-out images memorization does not show."
    other = "" if document.compared is None else f" {document.compared.model} is compared on the same draws."
    return text + held_out + other


def conditions(document: Timesteps, config: ProfileConfig) -> dict[str, str]:
    """Conditions that the figures depend on."""
    images = ", ".join(f"{count} {TITLES[split]}" for split, count in document.images.items())
    folders = ", ".join(str(folder) for folder in (config.train, config.held_out) if folder is not None)
    return {
        "model": document.model,
        "predicts": document.prediction,
        "schedule": f"{document.schedule.kind}, {document.noise_schedule.timesteps} timesteps",
        "images": f"{images} ({folders})",
        "input of the network": " × ".join(map(str, document.shape)),
        "seed": str(document.seed),
        **document.conditions,
        "error bands": f"{BAND:g} standard errors over draws; timesteps have draws of their own",
    }


def tables(found: ProfileResult) -> Iterator[Table]:
    """Means by space, and changes by parts of the timesteps if there is another model."""
    document = found.document
    shares = shares_of(np.array(document.timesteps), document.noise_schedule.timesteps)
    profiles = {
        (split, space): scaled(losses, space, document) for split, losses in document.losses.items() for space in SPACES
    }
    rows = [
        (
            f"{ERRORS[space]}, {TITLES[split]}",
            plus_minus(float(shares @ one.mean), float(np.sqrt(np.square(shares * one.stderr).sum()))),
            f"{one.largest_over_smallest:.3g}",
        )
        for (split, space), one in profiles.items()
    ]
    yield Table(
        "How unequal timesteps are",
        ("mean squared error per value", "mean over timesteps", "largest over smallest"),
        rows,
        "The same predictions of the network in three spaces.",
    )
    if (slots := slots_table(document)) is not None:
        yield slots
    if found.other is not None:
        yield table_of_changes(found.document, found.model, found.other)


def slots_table(document: Timesteps) -> Table | None:
    """Ten slots of equal loss, next to those of paper 1 where both have 1000 timesteps; None: losses too unequal."""
    losses = document.everywhere(document.losses["train"].mean)
    try:
        slots = equal_sums(losses, len(TABLE_1))
    except UserError:
        return None
    columns: tuple[str, ...] = ("slot", "timesteps", "share of all timesteps")
    rows: list[tuple[str, ...]] = [
        (str(i), span(one), f"{share:.1%}") for i, (one, share) in enumerate(zip(slots, slots.shares, strict=True), 1)
    ]
    note = "Each has a tenth of the summed error of ε on training images, interpolated between measured timesteps."
    if len(losses) == TABLE_1.timesteps:
        columns, note = (*columns, "paper 1, Table 1"), f"{note} Table 1: guided-diffusion's model of ImageNet-256."
        rows = [(*row, span(one)) for row, one in zip(rows, TABLE_1, strict=True)]
    return Table("Slots of equal loss", columns, rows, note)


def span(one: TimestepRange) -> str:
    """First and last timestep of a range."""
    return f"{one.first} … {one.last}"


def shares_of(measured: np.ndarray, total: int) -> np.ndarray:
    """Share of all T timesteps that are nearest to each measured one, [K]; ties are halved."""
    middles = (measured[1:] + measured[:-1]) / 2
    return np.diff(np.concatenate([[-0.5], middles, [total - 0.5]])) / total


def table_of_changes(
    document: Timesteps, ours: Mapping[SplitName, np.ndarray], theirs: Mapping[SplitName, np.ndarray]
) -> Table:
    """Changes by the other model, from the data to the noise."""
    parts = [part for part in np.array_split(np.arange(len(document.timesteps)), PARTS) if len(part)]
    rows = []
    for part in parts:
        first, last = (document.timesteps[k] for k in (part[0], part[-1]))
        changes = [relative_change(ours[split][part], theirs[split][part]) for split in ours]
        cells = [f"{100 * change:+.2f} ± {100 * error:.2f} %, {word(change, error)}" for change, error in changes]
        rows.append((str(first) if first == last else f"{first} … {last}", *cells))
    return Table(
        "Changes by parts of the timesteps",
        ("timesteps", *(TITLES[split] for split in ours)),
        rows,
        "Change of the summed error of ε by the other model, with its standard error over paired draws. Better or "
        f"worse: beyond {DISTINGUISHABLE:g} standard errors. Better on training images and worse on held-out ones: "
        "memorized.",
    )


def word(change: float, error: float) -> str:
    """Verdict on a relative change of the loss."""
    if abs(change) <= DISTINGUISHABLE * error:
        return "not distinguishable"
    return "better" if change < 0 else "worse"


def drawings(found: ProfileResult) -> Iterator[Drawing]:
    """All pictures of a profile."""
    document = found.document
    size = (11.0, 3.6)
    yield Drawing(
        "loss_over_timesteps",
        size,
        lambda figure: losses_over(figure, document, by_log_snr=False),
        "Loss of each timestep",
        "Mean squared error per value, log scale, in the spaces of ε, v and x0, with two standard errors on each side. "
        + ("On a flow v stands for the velocity." if document.schedule.kind == "flow" else ""),
    )
    yield Drawing(
        "loss_over_log_snr",
        size,
        lambda figure: losses_over(figure, document, by_log_snr=True),
        "Loss over log-SNR",
        "The same over λ = ln SNR, from the data on the left to the noise on the right: how models of different "
        "schedules are compared.",
    )
    if "held_out" in document.losses:
        yield Drawing(
            "gap",
            size,
            lambda figure: gap(figure, document),
            "Held-out images over training images",
            "Loss of held-out images over that of training images, less 1: above 0, training images are memorized, or "
            "held-out ones are of another kind.",
        )
    if document.compared is not None:
        yield Drawing(
            "change",
            size,
            lambda figure: changes(figure, document),
            "Change by the other model",
            "Its loss over the model's, less 1, on paired draws: below 0 is better, above 0 is worse.",
        )


def scaled(losses: Losses, space: str, document: Timesteps) -> LossProfile:
    """Losses in a space."""
    factor = space_factor(space, document.noise_schedule)[list(document.timesteps)]
    return LossProfile(np.array(losses.mean), np.array(losses.stderr)).scaled(factor)


def places(document: Timesteps, by_log_snr: bool) -> np.ndarray:
    """Positions of the measured timesteps on the axis, [K]."""
    chosen = list(document.timesteps)
    return document.noise_schedule.snr.log().numpy()[chosen] if by_log_snr else np.array(chosen)


def name_axis(axes: Axes, by_log_snr: bool) -> None:
    """Name an axis, with the noise on the right."""
    axes.set_xlabel("λ = ln SNR" if by_log_snr else "timestep t")
    if by_log_snr:
        axes.invert_xaxis()


def band(axes: Axes, x: np.ndarray, mean: np.ndarray, error: np.ndarray, split: SplitName) -> None:
    """A curve with its errors."""
    axes.plot(x, mean, color=COLOURS[split], linewidth=1.3, label=TITLES[split])
    axes.fill_between(x, mean - BAND * error, mean + BAND * error, color=COLOURS[split], alpha=0.2, linewidth=0)


def losses_over(figure: Figure, document: Timesteps, by_log_snr: bool) -> None:
    """A panel a space."""
    x = places(document, by_log_snr)
    for axes, space in zip(figure.subplots(1, len(SPACES)), SPACES, strict=True):
        for split, losses in document.losses.items():
            one = scaled(losses, space, document)
            band(axes, x, one.mean, one.stderr, split)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < DECADES * low:
            log_scale(axes, "{:g}")
        axes.set_title(ERRORS[space], fontsize=10)
        name_axis(axes, by_log_snr)
    figure.axes[0].legend()


def gap(figure: Figure, document: Timesteps) -> None:
    """Held-out loss over training loss, over t and over λ."""
    train, held_out = (scaled(document.losses[split], "epsilon", document) for split in ("train", "held_out"))
    ratio = held_out.mean / train.mean
    error = ratio * np.hypot(train.stderr / train.mean, held_out.stderr / held_out.mean)
    for axes, by_log_snr in zip(figure.subplots(1, 2), (False, True), strict=True):
        band(axes, places(document, by_log_snr), ratio - 1, error, "held_out")
        axes.axhline(0, color=SOFT, linewidth=0.8)
        name_axis(axes, by_log_snr)
    figure.axes[0].set_ylabel("relative gap")


def changes(figure: Figure, document: Timesteps) -> None:
    """The other model's relative change, over t and over λ."""
    assert document.compared is not None
    for axes, by_log_snr in zip(figure.subplots(1, 2), (False, True), strict=True):
        for split, change in document.compared.relative.items():
            error = np.array(document.compared.relative_stderr[split])
            band(axes, places(document, by_log_snr), np.array(change), error, split)
        axes.axhline(0, color=SOFT, linewidth=0.8)
        name_axis(axes, by_log_snr)
    figure.axes[0].set_ylabel("relative change of the loss")
    figure.axes[0].legend()
