"""Differences as strips inside a page: a point and its interval, beside a line where two models are alike."""

from collections.abc import Sequence

from unequal.report.statements import Difference

#: Pixels.
WIDTH, HEIGHT, MARGIN = 260, 30, 8
INK, SOFT, LINE = "#1b3a57", "#8a959f", "#c9ced3"
#: ln 1.05: strips that show less would make noise look large.
LEAST = 0.05


def widest(differences: Sequence[Difference | None]) -> float:
    """The largest |ln ratio| that strips side by side must show, so that all have one scale."""
    ends = [abs(end) for one in differences if one for end in (one.log_ratio, *(one.interval or ()))]
    return max([LEAST, *ends])


def strip(difference: Difference, width: float) -> str:
    """An SVG of ln(method/control) between −width and width, to one scale of pixels.

    The line in the middle is the control. The bar is the resolution of the run, filled points are told apart in it.
    """
    point, middle = place(difference.log_ratio, width), HEIGHT / 2
    ink, fill = (INK, INK) if difference.told_apart else (SOFT, "#ffffff")
    bar = ""
    if difference.interval is not None:
        low, high = (place(end, width) for end in difference.interval)
        bar = f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{ink}" stroke-width="3"/>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{difference.text()}">'
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{middle}" y2="{middle}" stroke="#e1e5e8"/>'
        f'<line x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="2" y2="{HEIGHT - 2}" stroke="{LINE}" stroke-width="2"/>'
        f'{bar}<circle cx="{point:.1f}" cy="{middle}" r="4.5" fill="{fill}" stroke="{ink}" stroke-width="2"/></svg>'
    )


def place(log_ratio: float, width: float) -> float:
    """Where a logarithm lies on a strip, in pixels from the left."""
    return WIDTH / 2 + (WIDTH / 2 - MARGIN) * log_ratio / width
