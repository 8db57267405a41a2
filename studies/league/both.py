"""Both networks of the league side by side: `python -m studies.league.both`, once both leagues have been run.

Reads what each has found and writes `results/both.md` and `results/both.png` beside their folders: the comparisons that
both have made, each with what each network says. Nothing is judged anew, and no network is held against the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveFloat

from unequal.artifacts.figures import Figures, JudgedFigures, read_figures
from unequal.comparison.figures import ROW, WIDTH
from unequal.comparison.tables import NAMES, between
from unequal.errors import UserError
from unequal.files import write_bytes
from unequal.report.drawing import INK, PALE, RED, SOFT, save
from unequal.report.formatting import label, percent
from unequal.statistics.verdicts import BETTER, SAME, WORSE

HERE = Path(__file__).parent
#: Folder of a network → how people call it.
NETWORKS = {"unet": "U-Net", "dit": "transformer"}
#: Network → its colour, and how far it is moved aside in its row.
DRAWN = {"unet": (INK, -0.16), "dit": (RED, 0.16)}
NOTE = (
    "Changes are within a network, with the 95 % interval of one comparison; words are those of its own league, where "
    "all of its comparisons were judged together. Networks are not compared with each other: they see other numbers of "
    "images."
)
CAPTION = "Left is better; shaded: within δ; filled: better or worse by the network's own words."


class Judged(JudgedFigures):
    """An endpoint of a network, and δ of its logarithm."""

    delta: PositiveFloat


class League(Figures):
    """What is read of a network's results/findings.json."""

    first: str
    endpoints: dict[str, Judged]


#: Network → what its league has found.
Leagues = Mapping[str, Mapping[str, Any]]


def read_leagues(folder: Path) -> Leagues:
    """What both have found. Raises UserError where one has not been run, or lacks what is read of it."""
    files = {network: folder / network / "results/findings.json" for network in NETWORKS}
    if gone := [network for network, file in files.items() if not file.exists()]:
        raise UserError(f"{files[gone[0]]}: missing; run the league of the {NETWORKS[gone[0]]} before both are shown")
    return {network: read_figures(file, League) for network, file in files.items()}


def shared(leagues: Leagues) -> dict[str, list[str]]:
    """Endpoint → the comparisons that all leagues have made by it, in the order of the first league.

    Raises UserError where there is none.
    """
    first, *others = (one["endpoints"] for one in leagues.values())
    found = {
        endpoint: [
            one for one in judged["comparisons"] if all(one in other[endpoint]["comparisons"] for other in others)
        ]
        for endpoint, judged in first.items()
        if all(endpoint in other for other in others)
    }
    if not any(found.values()):
        raise UserError("the leagues have no comparison in common; run both by settings that share arms and endpoints")
    return {endpoint: comparisons for endpoint, comparisons in found.items() if comparisons}


def markdown(leagues: Leagues) -> str:
    """Data, network and budget of both, and a row an endpoint and comparison."""
    head = ["endpoint", "arm against control", *NETWORKS.values()]
    firsts = [f"- {NETWORKS[network]}: {one['first']}" for network, one in leagues.items()]
    lines = ["# Both networks of the league", "", *firsts, "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows(leagues)]
    return "\n".join([*lines, "", NOTE, "", "![both networks](both.png)", "", CAPTION]) + "\n"


def rows(leagues: Leagues) -> Iterator[tuple[str, ...]]:
    """Those of the table."""
    for endpoint, comparisons in shared(leagues).items():
        for comparison in comparisons:
            said = (told(one["endpoints"][endpoint], comparison) for one in leagues.values())
            yield NAMES[endpoint], label(comparison), *said


def told(judged: Mapping[str, Any], comparison: str) -> str:
    """A change with its interval and word; the word with δ where arms are the same."""
    one = judged["comparisons"][comparison]
    word = f"{one['word']} within {percent(judged['delta'])}" if one["word"] == SAME else one["word"]
    return f"{percent(one['change'], sign=True)} ({between(one['low'], one['high'])}): {word}"


def draw(figure: Figure, leagues: Leagues) -> None:
    """A panel an endpoint, a row a comparison, in it an interval a network."""
    found = shared(leagues)
    names = list(dict.fromkeys(one for comparisons in found.values() for one in comparisons))
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, endpoint in zip(panels, found, strict=True):
        for network, one in leagues.items():
            draw_network(axes, network, one["endpoints"][endpoint], names)
        axes.axvline(0, color=SOFT, linewidth=1)
        axes.set_title(NAMES[endpoint].replace(", ", ",\n"), loc="left", fontsize=8)
        axes.set_xlabel("change in %")
        axes.grid(axis="y", visible=False)
    panels[0].set_yticks(range(len(names)), [label(one) for one in names])
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(leagues))


def draw_network(axes: Axes, network: str, judged: Mapping[str, Any], names: Sequence[str]) -> None:
    """A network's intervals, and its δ shaded; a point is filled where the word is better or worse."""
    ink, aside = DRAWN[network]
    axes.axvspan(*(100 * np.expm1([-judged["delta"], judged["delta"]])), color=PALE, linewidth=0, zorder=0)
    axes.plot([], [], "o-", color=ink, label=NETWORKS[network])
    for place, name in enumerate(names):
        if (one := judged["comparisons"].get(name)) is not None:
            at, filled = place + aside, one["word"] in (BETTER, WORSE)
            axes.plot([100 * one["low"], 100 * one["high"]], [at, at], color=ink, linewidth=2)
            axes.plot(100 * one["change"], at, "o", color=ink, markerfacecolor=ink if filled else "white", markersize=5)


def write_both(folder: Path) -> list[Path]:
    """Write table and picture of the leagues in a folder; where they lie. Raises UserError as `read_leagues`."""
    leagues = read_leagues(folder)
    text, names = markdown(leagues), {one for comparisons in shared(leagues).values() for one in comparisons}
    page, picture = folder / "results/both.md", folder / "results/both.png"
    write_bytes(page, text.encode())
    save(picture, (1.3 * WIDTH, 1.6 + 2 * ROW * len(names)), partial(draw, leagues=leagues))
    return [page, picture]


@click.command(help=__doc__)
def main() -> None:
    """Show both leagues."""
    try:
        written = write_both(HERE)
    except UserError as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(f"written: {one}" for one in written))


if __name__ == "__main__":
    main()
