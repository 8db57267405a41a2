"""Write the last run's figures and findings into README.md, between its markers: `python -m unequal.tools.readme`."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from matplotlib.ticker import EngFormatter

from unequal.artifacts.figures import ReferenceFigures, read_figures
from unequal.errors import UserError
from unequal.files import read_json
from unequal.settings.params.pipeline import Params

README, RESULTS, PARAMS = Path("README.md"), Path("results"), Path("params.yaml")
COLUMNS = ("variant", "FID", "images seen", "training FLOPs", "sampling FLOPs an image")
#: 1.84e12 → `1.84 T`, and 1.91e8 → `191 M`.
tera, whole = EngFormatter(places=2), EngFormatter(places=0)


def filled(text: str, name: str, content: str) -> str:
    """The text with this content between `<!-- name -->` and `<!-- /name -->`. Raises UserError without the two."""
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not (start and end):
        raise UserError(f"<!-- {name} -->: the page has no place of that name that is closed again")
    return f"{before}{start}{content.strip()}\n{end}{after}"


def results_table(folder: Path = RESULTS) -> str:
    """Markdown of the FID and cost of the variants and of the two ends of the scale; slot models compete with none."""
    with (folder / "fid.csv").open(encoding="utf-8", newline="") as file:
        rows = [variant_row(row) for row in csv.DictReader(file) if not row["variant"].startswith("slot_")]
    reference = read_figures(folder / "fid/reference.json", ReferenceFigures)
    ends = {
        f"real images, {reference['real_sets']}": "real_against_real",
        "noise against real images": "noise_against_real",
    }
    rows += [(f"*{what}*", f"{reference[key]['fid']:.3f}", "", "", "") for what, key in ends.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows))


def variant_row(row: Mapping[str, str]) -> tuple[str, ...]:
    """A line of fid.csv as README shows it."""
    spread = f" ± {float(row['fid_sd']):.3f}" if row["fid_sd"] else ""
    name, images = row["variant"].replace("_", " "), f"{int(row['images_seen']):,}"
    training, sampling = tera(float(row["training_flops"])), whole(float(row["sampling_flops"]))
    return name, f"{float(row['fid']):.3f}{spread}", images, training, sampling


def conditions(folder: Path = RESULTS, params: Path = PARAMS) -> str:
    """Markdown of what was trained and how it was scored, without which no figure means anything."""
    settings, base = Params.read(params), read_json(folder / "metrics/train_base.json")
    split, score = read_json(folder / "metrics/data.json")["split"], read_json(folder / "fid/base.json")
    size, seeds = settings.data.image_size, len(score["sampling_seeds"])
    return (
        f"{split['train'][1]:,} training images of {size} × {size} pixels, a UNet of {base['parameters'] / 1e6:.2f} M "
        f"parameters, T = {settings.schedule.timesteps}, a base of {base['images_seen']:,} images. FID compares "
        f"{score['samples_per_seed']} samples a seed ({score['sampling']['steps']} DDIM steps, the same noise for all) "
        "with the training images, on the features of a small classifier that the pipeline trains: rows compare with "
        f"each other and with nothing else. ± is the standard deviation over {seeds} sampling seeds."
    )


def findings(folder: Path = RESULTS) -> str:
    """Markdown of what the report says of the run, sentence by sentence."""
    return "\n\n".join(map(section, read_json(folder / "findings.json")["sections"]))


def section(one: Mapping[str, Any]) -> str:
    """Statements below their heading and their lead."""
    items = "\n".join(f"- {sentence(statement)}" for statement in one["statements"])
    return f"**{one['heading']}** {one['lead']}".strip() + f"\n\n{items}"


def sentence(statement: Mapping[str, str]) -> str:
    """A statement, its subject set off."""
    return f"**{statement['subject']}** {statement['text']}" if statement["subject"] else statement["text"]


def filled_readme(text: str, folder: Path = RESULTS, params: Path = PARAMS) -> str:
    """README with the figures of a run in all its places."""
    contents = {
        "conditions": conditions(folder, params),
        "results": results_table(folder),
        "findings": findings(folder),
    }
    for name, content in contents.items():
        text = filled(text, name, content)
    return text


@click.command(help=__doc__)
def main() -> None:
    """Fill the places of README.md."""
    README.write_text(filled_readme(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
