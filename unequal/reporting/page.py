"""The report as one HTML page that needs nothing but itself: styles and pictures are inside."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from unequal.reporting.tables import Variant, label, plus_minus, with_prefix
from unequal.reporting.verdicts import Verdict

#: Picture → heading and caption, in the order of the page.
CAPTIONS = {
    "loss_profile": (
        "Loss over timesteps",
        "Mean squared error of the predicted noise, in bins of equal width on the log scale, with ± 1 standard error. "
        "The floor is the loss of the best possible denoiser of the training images: no network loses less on them, "
        "and one that reaches it has memorised them; for held-out images it is no bound. Near the data it falls out "
        "of the picture. Shaded and numbered: slots with equal sums of the base's loss.",
    ),
    "loss_changes": (
        "What further training changed",
        "Training loss of every further model as a multiple of the base's, on the same images and noise. "
        "The thick part of a slot model's line is the slot that it was trained on inside.",
    ),
    "interference": (
        "Interference of slots",
        "Change of a slot's summed training loss after the base was trained on inside one slot, in percent ± standard "
        "error of paired draws. Framed: the slot that was trained on. Blue is lower loss, red is higher.",
    ),
    "samplers": (
        "Timestep samplers",
        "How often each recipe draws a timestep, as a multiple of uniform drawing; "
        "one that draws uniformly stands at 1 ×.",
    ),
    "groups": (
        "Groups of timesteps and their FLOPs",
        "Above: signal-to-noise ratio. Below: the share of the base's FLOPs that each timestep deserves by its "
        "SNR, the limit of its group, and what the group's pruned model takes.",
    ),
    "fid_training_flops": (
        "FID against training FLOPs",
        "Mean ± standard deviation over sampling seeds. Training FLOPs are three times the multiply–accumulates of "
        "all images seen, those of the models trained on from included.",
    ),
    "fid_sampling_flops": (
        "FID against sampling FLOPs",
        "Mean ± standard deviation over sampling seeds. Multiply–accumulates of all sampling steps of one image.",
    ),
    "samples": (
        "Samples from the same noise",
        "Every column starts from one noise, every row is one variant; the last row shows real images.",
    ),
}

COLUMNS = (
    "variant",
    "FID",
    "KID",
    "images seen",
    "training FLOPs",
    "sampling FLOPs an image",
    "parameters",
    "sampling steps per expert",
)

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { --ink: #1d2730; --soft: #5d6b77; --line: #e1e5e8; --paper: #ffffff; --back: #f6f5f1; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .8rem; }
h3 { font-size: 1.05rem; margin: 0 0 .6rem; }
p { margin: .5rem 0; max-width: 46rem; }
.soft { color: var(--soft); font-size: .9rem; }
.card, figure { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .82rem; vertical-align: bottom; }
th, td { padding: .6rem .8rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.figures td + td, .figures th + th { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.figures th + th { white-space: normal; }
.figures .reference td { color: var(--soft); font-style: italic; }
.verdicts td:first-child { width: 30%; }
.word { display: inline-block; padding: .1rem .55rem; border-radius: 1rem; font-size: .82rem; font-weight: 600;
  white-space: nowrap; }
.held { background: #dcf0e3; color: #17603a; }
.not-held { background: #f9dfd9; color: #8f2c17; }
.undecided { background: #eceef0; color: #47535e; }
.rule { display: block; margin-top: .25rem; color: var(--soft); font-size: .82rem; }
figure { margin: 1.2rem 0; padding: 1rem; }
figure img { display: block; width: 100%; min-width: 640px; height: auto; }
figcaption { margin-top: .7rem; color: var(--soft); font-size: .9rem; max-width: 52rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 0; padding: 1rem;
  font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  .verdicts thead { display: none; }
  .verdicts, .verdicts tbody, .verdicts tr, .verdicts td { display: block; }
  .verdicts td:first-child { width: auto; }
  .verdicts tr { padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .verdicts tr:last-child { border-bottom: 0; }
  .verdicts td { border: 0; padding: .2rem .8rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
}
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p>$lead</p>

<h2>Verdicts</h2>
<div class="card">
<table class="verdicts">
<thead><tr><th>claim</th><th>paper</th><th>verdict</th><th>figures, and the rule that decided</th></tr></thead>
<tbody>
$verdicts
</tbody>
</table>
</div>
<p class="soft">$spread</p>

<h2>Scores and costs</h2>
<div class="card scroll">
<table class="figures">
<thead><tr>$columns</tr></thead>
<tbody>
$rows
</tbody>
</table>
</div>
<p class="soft">FID and KID are on the scale of the features named below: only figures of the same features compare.
FLOPs are multiply–accumulates without attention's two products. Images and training FLOPs count from
the first random weights on; those of experts are summed over all groups, the base's counted once.
Sampling steps are given from the data end to the noise end; a single model takes all.$idle</p>

<h2>Conditions</h2>
<dl class="card">
$conditions
</dl>

<h2>Pictures</h2>
$pictures
</main>
</body>
</html>
""")


def render(
    verdicts: Sequence[Verdict],
    variants: Sequence[Variant],
    references: Mapping[str, Any],
    conditions: Mapping[str, str],
    pictures: Sequence[Path],
) -> str:
    """The page.

    Args:
        verdicts, variants: rows of the two tables.
        references: the content of results/fid/reference.json.
        conditions: what the scores mean nothing without, name → text.
        pictures: PNG files, named as in CAPTIONS.
    """
    words = [verdict.verdict for verdict in verdicts]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words)))
    return PAGE.substitute(
        title="Timesteps are not equal: what this run shows",
        lead=escape(f"{len(variants)} variants, scored from the same noise. Of {len(words)} claims: {counts}."),
        verdicts="\n".join(map(verdict_row, verdicts)),
        spread=escape(spread_note(variants[0].seeds)),
        columns="".join(f"<th>{escape(column)}</th>" for column in COLUMNS),
        rows="\n".join([*map(variant_row, variants), *reference_rows(references)]),
        idle=escape(idle_note(variants)),
        conditions="\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in conditions.items()),
        pictures="\n".join(map(figure_of, pictures)),
    )


def spread_note(seeds: int) -> str:
    """What the spreads of the verdicts hold, and what they do not."""
    many = f"{seeds} sampling seed{'' if seeds == 1 else 's'}"
    return (
        f"FIDs: mean ± standard deviation over {many} of models trained once. The spread between trainings is not in "
        "it, so a verdict speaks for these weights; differences within the spread are left undecided. "
        f"{'A standard deviation of so few is rough itself: verdicts near their limit are weak. ' * (1 < seeds < 5)}"
        "Verdicts go by FID; KID stands beside it as a second opinion."
    )


def idle_note(variants: Sequence[Variant]) -> str:
    """Which experts take no part in sampling, so that no score speaks of them; empty where all do."""
    return "".join(
        f" No sampling step falls to expert {', '.join(map(str, variant.idle))} of {label(variant.name)}: "
        "its scores say nothing of what was learned there."
        for variant in variants
        if variant.idle
    )


def verdict_row(verdict: Verdict) -> str:
    """A row of the first table."""
    word = f'<span class="word {verdict.verdict.replace(" ", "-")}">{escape(verdict.verdict)}</span>'
    figures = f'{escape(verdict.summary)}<span class="rule">Rule: {escape(verdict.rule)}.</span>'
    cells = (f"<strong>{escape(verdict.claim)}</strong>", f"paper&nbsp;{verdict.paper}", word, figures)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def variant_row(variant: Variant) -> str:
    """A row of the table of scores."""
    costs = (variant.images_seen, variant.training_flops, variant.sampling_flops, variant.parameters)
    scores = (plus_minus(variant.fid, variant.fid_sd), plus_minus(variant.kid, variant.kid_sd))
    return row((label(variant.name), *scores, *map(with_prefix, costs), ", ".join(map(str, variant.steps))))


def reference_rows(references: Mapping[str, Any]) -> list[str]:
    """The two ends of the scale."""
    ends = (
        ("real_against_real", "real images, half against half"),
        ("noise_against_real", "noise against real images"),
    )
    return [
        row((name, *(plus_minus(references[key][score], None) for score in ("fid", "kid")), *5 * ("–",)), "reference")
        for key, name in ends
    ]


def row(cells: Sequence[str], kind: str = "") -> str:
    """A row of a table."""
    return f'<tr class="{kind}">{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'


def figure_of(picture: Path) -> str:
    """A picture inside the page, with heading and caption."""
    heading, caption = CAPTIONS[picture.stem]
    content = base64.b64encode(picture.read_bytes()).decode()
    image = f'<img alt="{escape(heading)}" src="data:image/png;base64,{content}">'
    return (
        f'<figure id="{escape(picture.stem)}"><h3>{escape(heading)}</h3><div class="scroll">{image}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
