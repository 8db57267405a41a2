"""Write the figures of the last run into README.md, between its markers: `python -m unequal.tools.readme`."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from matplotlib.ticker import EngFormatter

from unequal.errors import UserError
from unequal.files import read_json

README, RESULTS = Path("README.md"), Path("results")
COLUMNS = ("variant", "FID", "images seen", "training FLOPs", "sampling FLOPs an image", "parameters")
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
    """Markdown of every variant's FID and cost, and the two ends of the scale."""
    with (folder / "fid.csv").open(encoding="utf-8", newline="") as file:
        rows = [variant_row(row) for row in csv.DictReader(file)]
    reference = read_json(folder / "fid/reference.json")
    ends = {"real images, half against half": "real_against_real", "noise against real images": "noise_against_real"}
    rows += [(f"*{what}*", f"{reference[key]['fid']:.3f}", "", "", "", "") for what, key in ends.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows))


def variant_row(row: Mapping[str, str]) -> tuple[str, ...]:
    """A line of fid.csv as README shows it."""
    fid = f"{float(row['fid']):.3f} ± {float(row['fid_sd']):.3f}"
    name, images = row["variant"].replace("_", " "), f"{int(row['images_seen']):,}"
    sampling, parameters = (whole(float(row[key])) for key in ("sampling_flops", "parameters"))
    return name, fid, images, tera(float(row["training_flops"])), sampling, parameters


def findings(folder: Path = RESULTS) -> str:
    """Markdown of what the loss profiles of the run say, as figures and without a verdict."""
    claims = {claim["key"]: claim["figures"] for claim in read_json(folder / "verdicts.json")["claims"]}
    return "\n".join(f"- {sentence}" for sentence in sentences(claims))


def sentences(claims: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """One a finding."""
    losses, own, others = (claims[key] for key in ("losses_differ", "own_slot_improves", "other_slots_suffer"))
    yield (
        f"The base's loss at t = {losses['largest_at']} is {losses['ratio']:.0f} ± {losses['ratio_stderr']:.0f} times "
        f"its loss at t = {losses['smallest_at']}."
    )
    changes = [value for key, value in own.items() if key.endswith("_percent")]
    yield (
        f"Training the base on inside one slot changed that slot's loss by {signed(max(changes))} to "
        f"{signed(min(changes))} %. Of the {others['comparisons']} losses of other slots {others['for']} rose and "
        f"{others['against']} fell by more than two standard errors. They changed by "
        f"{signed(others['least_percent'])} to {signed(others['most_percent'])} %."
    )


def signed(percent: float) -> str:
    """A change to one decimal, with its sign."""
    return f"{percent:+.1f}".replace("-", "−")


@click.command(help=__doc__)
def main() -> None:
    """Fill both places of README.md."""
    text = filled(README.read_text(encoding="utf-8"), "results", results_table())
    README.write_text(filled(text, "findings", findings()), encoding="utf-8")


if __name__ == "__main__":
    main()
