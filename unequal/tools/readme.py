"""Write the last run's figures and the studies' words into pages: `python -m unequal.tools.readme`.

They stand between markers of README.md, of docs/findings.md and of the studies' READMEs, `<!-- name -->` and
`<!-- /name -->`.
"""

import csv
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click
from matplotlib.ticker import EngFormatter

from unequal.artifacts.figures import (
    DataFigures,
    FindingFigures,
    ReferenceFigures,
    ScoreFigures,
    TrainedFigures,
    read_figures,
)
from unequal.errors import UserError
from unequal.files import require
from unequal.report.comparisons import HELD_OUT, PAIRINGS, TRAINING_ON
from unequal.report.formatting import signed
from unequal.report.results import solver_of
from unequal.settings.params.pipeline import Params
from unequal.tools.answers import STUDIES, answers, words

README, FINDINGS = Path("README.md"), Path("docs/findings.md")
#: The prose of a study, beside its dvc.yaml.
TOLD = "told.md"
RESULTS, PARAMS = Path("results"), Path("params.yaml")
COLUMNS = ("variant", "FID", "images seen", "training FLOPs", "against", "FID", *HELD_OUT.values())
#: 1.84e12 → `1.84 T`.
tera = EngFormatter(places=2)


def filled(text: str, name: str, content: str) -> str:
    """The text with this content between `<!-- name -->` and `<!-- /name -->`. Raises UserError without the two."""
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not (start and end):
        raise UserError(f"<!-- {name} -->: the page has no place of that name that is closed again")
    return f"{before}{start}{content.strip()}\n{end}{after}"


def results_table(folder: Path = RESULTS) -> str:
    """Markdown of what variants came to, what they cost, and how they differ from their controls.

    Slot models compete with none. The last rows are the two ends of the scale of FID.
    """
    found = variant_rows(folder / "fid.csv")
    figures = read_figures(folder / "findings.json", FindingFigures)
    rows = [row + differences(name, found, figures) for name, row in found.items()]
    reference = read_figures(folder / "fid/reference.json", ReferenceFigures)
    ends = {
        f"real images, {reference['real_sets']}": "real_against_real",
        "noise against real images": "noise_against_real",
    }
    empty = ("",) * (len(COLUMNS) - 2)
    rows += [(f"*{what}*", f"{reference[key]['fid']:.3f}", *empty) for what, key in ends.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows))


def variant_rows(path: Path) -> dict[str, tuple[str, ...]]:
    """Variant → its line of fid.csv, without slot models. Raises UserError where that is no such table."""
    try:
        with require(path).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if not row["variant"].startswith("slot_")]
        return {row["variant"]: variant_row(row) for row in rows}
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(f"{path}: no table of scores ({type(error).__name__}: {error}); make it again") from None


def variant_row(row: Mapping[str, str]) -> tuple[str, ...]:
    """A line of fid.csv as README shows it."""
    spread = f" ± {float(row['fid_sd']):.3f}" if row["fid_sd"] else ""
    name, images = row["variant"].replace("_", " "), f"{int(row['images_seen']):,}"
    return name, f"{float(row['fid']):.3f}{spread}", images, tera(float(row["training_flops"]))


def differences(name: str, scored: Collection[str], figures: Mapping[str, Any]) -> tuple[str, ...]:
    """A variant's control, and the differences from it; dashes where it has none."""
    controls = [one.control for one in (TRAINING_ON, *PAIRINGS) if one.method == name and one.control in scored]
    if not controls:
        return ("–",) * (2 + len(HELD_OUT))
    return controls[0].replace("_", " "), *(
        difference(f"{name}_{endpoint}", figures) for endpoint in ("fid", *HELD_OUT)
    )


def difference(key: str, figures: Mapping[str, Any]) -> str:
    """As `−23.2 % (−27.9 to −18.1)`: a difference and its interval, where the run has them."""
    names = (f"{key}_{name}_percent" for name in ("change", "low", "high"))
    change, *interval = (signed(figures[name]) if name in figures else "–" for name in names)
    if change == "–":
        return change
    return f"{change} % ({' to '.join(interval)})" if "–" not in interval else f"{change} %"


def conditions(folder: Path = RESULTS, params: Path = PARAMS) -> str:
    """Markdown of what was trained and how it was scored, without which no figure means anything."""
    settings, base = Params.read(params), read_figures(folder / "metrics/train_base.json", TrainedFigures)
    split = read_figures(folder / "metrics/data.json", DataFigures)["split"]
    score = read_figures(folder / "fid/base.json", ScoreFigures)
    sampling = score["sampling"]
    size, seeds = settings.data.image_size, len(score["sampling_seeds"])
    return (
        f"{split['train'][1]:,} training images of {size} × {size} pixels, a UNet of {base['parameters'] / 1e6:.2f} M "
        f"parameters, T = {settings.schedule.timesteps}, a base of {base['images_seen']:,} images. FID compares "
        f"{score['samples_per_seed']} samples a seed ({sampling['steps']} {solver_of(sampling)} steps, the same noise "
        "for all) with the training images, on the features of a small classifier that the pipeline trains: rows "
        f"compare with each other alone. ± is the standard deviation over {seeds} sampling seeds."
    )


def findings(folder: Path = RESULTS) -> str:
    """Markdown of what the report says of the run beside its comparisons, which the table has."""
    compared = {one.method for one in (TRAINING_ON, *PAIRINGS)}
    sections = read_figures(folder / "findings.json", FindingFigures)["sections"]
    statements = (one for part in sections for one in part["statements"])
    return "\n".join(f"- {sentence(one)}" for one in statements if one["key"] not in compared)


def sentence(statement: Mapping[str, str]) -> str:
    """A statement, its subject set off."""
    return f"**{statement['subject']}** {statement['text']}" if statement["subject"] else statement["text"]


def filled_readme(text: str, folder: Path = RESULTS, params: Path = PARAMS) -> str:
    """README with the figures of a run in all its places."""
    contents = {
        "conditions": conditions(folder, params),
        "results": results_table(folder),
        "findings": findings(folder),
        "studies": answers(),
    }
    for name, content in contents.items():
        text = filled(text, name, content)
    return text


def filled_findings(text: str, studies: Path = STUDIES) -> str:
    """docs/findings.md with what all studies say that it has a place for. Raises UserError where one says nothing."""
    for study in re.findall(r"<!-- (\w[\w/]*) -->", text):
        text = filled(text, study, words(studies / study, "summary.md"))
    return text


def filled_study(text: str, study: Path) -> str:
    """A study's README with what it says. Raises UserError where that is nothing, or has no place."""
    for place, folder in places(study).items():
        text = filled(text, place, words(folder, TOLD))
    return text


def places(study: Path) -> dict[str, Path]:
    """Those that a study's README has for what is told: `told`, or the name of a folder with a graph of its own."""
    own = {"told": study} if (study / TOLD).exists() else {}
    return own | {template.parent.name: template.parent for template in sorted(study.glob(f"*/{TOLD}"))}


def telling(studies: Path = STUDIES) -> list[Path]:
    """READMEs of the studies that have something to tell."""
    return [study / README for study in sorted(studies.iterdir()) if places(study)]


@click.command(help=__doc__)
def main() -> None:
    """Fill the places of all pages, or of none."""
    try:
        pages = {
            README: filled_readme(README.read_text(encoding="utf-8")),
            FINDINGS: filled_findings(FINDINGS.read_text(encoding="utf-8")),
        } | {page: filled_study(page.read_text(encoding="utf-8"), page.parent) for page in telling()}
    except UserError as error:
        raise click.ClickException(str(error)) from None
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
