"""The page of a profile: losses over timesteps, and changes by another model."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
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
from unequal.timesteps.partition import TABLE_1, equal_sums

TITLES: dict[SplitName, str] = {"train": "training images", "held_out": "held-out images"}
COLOURS: dict[SplitName, str] = {"train": INK, "held_out": RED}
#: Space → name of its squared error.
ERRORS = {"epsilon": "error of ε", "v": "error of v", "x0": "error of x0"}
#: Parts of the timesteps in the table of changes, and standard errors from which on a change is distinguishable.
PARTS, DISTINGUISHABLE = 8, 3.0
BAND = 2.0
#: Ratio of the highest to the lowest loss from which on an axis shows powers of ten alone.
DECADES = 100
#: Curves with their errors, [K] each.
Curves = dict[SplitName, tuple[np.ndarray, np.ndarray]]


def page(result: ProfileResult, config: ProfileConfig) -> str:
    """Render the page, with its pictures inside."""
    report = Report(
        title=f"Timesteps of {result.document.model}",
        lead=lead(result.document),
        tables=list(tables(result)),
        conditions=conditions(result.document, config),
        drawings=list(drawings(result.document)),
        rows={},
    )
    with tempfile.TemporaryDirectory() as folder:
        return render(report, Path(folder))


def lead(document: Timesteps) -> str:
    """The main result in a few sentences."""
    ratio = scaled(document.judged, "epsilon", document).largest_over_smallest
    text = (
        f"The loss of the {document.family} varies by a factor of {ratio:.3g} over timesteps: "
        f"{len(document.timesteps)} of {document.noise_schedule.timesteps} measured, {document.draws} draws each."
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


def tables(result: ProfileResult) -> Iterator[Table]:
    """Means by space, slots, and changes by parts of the timesteps if there is another model."""
    document = result.document
    shares = shares_of(np.array(document.timesteps), document.noise_schedule.timesteps)
    rows = []
    for split, losses in document.losses.items():
        for space in SPACES:
            profile = scaled(losses, space, document)
            mean, error = float(shares @ profile.mean), float(np.sqrt(np.square(shares * profile.stderr).sum()))
            row = (f"{ERRORS[space]}, {TITLES[split]}", plus_minus(mean, error), f"{profile.largest_over_smallest:.3g}")
            rows.append(row)
    yield Table(
        "How unequal timesteps are",
        ("mean squared error per value", "mean over timesteps", "largest over smallest"),
        rows,
        "The same predictions of the network in three spaces.",
    )
    if (slots := slots_table(document)) is not None:
        yield slots
    if result.other is not None:
        yield table_of_changes(document, result.model, result.other)


def slots_table(document: Timesteps) -> Table | None:
    """Ten slots of equal loss, next to those of paper 1 where both have 1000 timesteps; None: losses too unequal."""
    losses = document.everywhere(document.losses["train"].mean)
    try:
        slots = equal_sums(losses, len(TABLE_1))
    except UserError:
        return None
    spans, papers = ([f"{slot.first} … {slot.last}" for slot in ranges] for ranges in (slots, TABLE_1))
    columns: tuple[str, ...] = ("slot", "timesteps", "share of all timesteps")
    rows: list[tuple[str, ...]] = [
        (str(i), span, f"{share:.1%}") for i, (span, share) in enumerate(zip(spans, slots.shares, strict=True), 1)
    ]
    note = "Each has a tenth of the summed error of ε on training images, interpolated between measured timesteps."
    if len(losses) == TABLE_1.timesteps:
        columns, note = (*columns, "paper 1, Table 1"), f"{note} Table 1: guided-diffusion's model of ImageNet-256."
        rows = [(*row, paper) for row, paper in zip(rows, papers, strict=True)]
    return Table("Slots of equal loss", columns, rows, note)


def shares_of(measured: np.ndarray, total: int) -> np.ndarray:
    """Share of all T timesteps that are nearest to each measured one, [K]; ties are halved."""
    middles = (measured[1:] + measured[:-1]) / 2
    return np.diff(np.concatenate([[-0.5], middles, [total - 0.5]])) / total


def table_of_changes(
    document: Timesteps, ours: Mapping[SplitName, np.ndarray], theirs: Mapping[SplitName, np.ndarray]
) -> Table:
    """Changes by the other model, from the data to the noise."""

    def cell(change: float, error: float) -> str:
        word = "better" if change < 0 else "worse"
        word = "not distinguishable" if abs(change) <= DISTINGUISHABLE * error else word
        return f"{100 * change:+.2f} ± {100 * error:.2f} %, {word}"

    rows = []
    for part in filter(len, np.array_split(np.arange(len(document.timesteps)), PARTS)):
        first, last = (document.timesteps[k] for k in (part[0], part[-1]))
        cells = [cell(*relative_change(ours[split][part], theirs[split][part])) for split in ours]
        rows.append((str(first) if first == last else f"{first} … {last}", *cells))
    return Table(
        "Changes by parts of the timesteps",
        ("timesteps", *(TITLES[split] for split in ours)),
        rows,
        f"Change of the summed error of ε, on paired draws. Better or worse: beyond {DISTINGUISHABLE:g} standard "
        "errors. Better on training images and worse on held-out ones: memorized.",
    )


def drawings(document: Timesteps) -> Iterator[Drawing]:
    """All pictures of a profile."""

    def drawn(name: str, draw: Callable[[Figure], None], title: str, text: str) -> Drawing:
        return Drawing(name, (11.0, 3.6), draw, title, text)

    flow = " On a flow v stands for the velocity." if document.schedule.kind == "flow" else ""
    yield drawn(
        "loss_over_timesteps",
        partial(losses_over, document=document, by_log_snr=False),
        "Loss of each timestep",
        "Mean squared error per value, log scale, in the spaces of ε, v and x0, with two standard errors on each side."
        + flow,
    )
    yield drawn(
        "loss_over_log_snr",
        partial(losses_over, document=document, by_log_snr=True),
        "Loss over log-SNR",
        "The same over λ = ln SNR, data on the left: how models of different schedules are compared.",
    )
    if "held_out" in document.losses:
        train, held_out = (scaled(document.losses[split], "epsilon", document) for split in TITLES)
        ratio = held_out.mean / train.mean
        error = ratio * np.hypot(train.stderr / train.mean, held_out.stderr / held_out.mean)
        gap: Curves = {"held_out": (ratio - 1, error)}
        yield drawn(
            "gap",
            partial(changes_over, document=document, curves=gap, label="relative gap"),
            "Held-out images over training images",
            "Loss of held-out images over that of training images, less 1: above 0, training images are memorized, or "
            "held-out ones are of another kind.",
        )
    if (compared := document.compared) is not None:
        curves = {s: (np.array(c), np.array(compared.relative_stderr[s])) for s, c in compared.relative.items()}
        yield drawn(
            "change",
            partial(changes_over, document=document, curves=curves, label="relative change of the loss"),
            "Change by the other model",
            "Its loss over the model's, less 1, on paired draws: below 0 is better, above 0 is worse.",
        )


def scaled(losses: Losses, space: str, document: Timesteps) -> LossProfile:
    """Losses in a space."""
    factor = space_factor(space, document.noise_schedule)[list(document.timesteps)]
    return LossProfile(np.array(losses.mean), np.array(losses.stderr)).scaled(factor)


def draw_curves(axes: Axes, document: Timesteps, by_log_snr: bool, curves: Curves) -> None:
    """Curves with their bands over t or λ, the noise on the right."""
    chosen = list(document.timesteps)
    x = document.noise_schedule.snr.log().numpy()[chosen] if by_log_snr else np.array(chosen)
    for split, (mean, error) in curves.items():
        axes.plot(x, mean, color=COLOURS[split], linewidth=1.3, label=TITLES[split])
        axes.fill_between(x, mean - BAND * error, mean + BAND * error, color=COLOURS[split], alpha=0.2, linewidth=0)
    axes.set_xlabel("λ = ln SNR" if by_log_snr else "timestep t")
    if by_log_snr:
        axes.invert_xaxis()


def losses_over(figure: Figure, document: Timesteps, by_log_snr: bool) -> None:
    """A panel a space."""
    for axes, space in zip(figure.subplots(1, len(SPACES)), SPACES, strict=True):
        profiles = {split: scaled(losses, space, document) for split, losses in document.losses.items()}
        draw_curves(axes, document, by_log_snr, {split: (p.mean, p.stderr) for split, p in profiles.items()})
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < DECADES * low:
            log_scale(axes, "{:g}")
        axes.set_title(ERRORS[space], fontsize=10)
    figure.axes[0].legend()


def changes_over(figure: Figure, document: Timesteps, curves: Curves, label: str) -> None:
    """Relative changes, over t and over λ."""
    for axes, by_log_snr in zip(figure.subplots(1, 2), (False, True), strict=True):
        draw_curves(axes, document, by_log_snr, curves)
        axes.axhline(0, color=SOFT, linewidth=0.8)
    figure.axes[0].set_ylabel(label)
    figure.axes[0].legend()
