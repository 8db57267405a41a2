"""What studies have come to: a sentence a paper for README.md, and their words on docs/findings.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveFloat

from unequal.artifacts.figures import JudgedFigures, StudyFigures, read_figures
from unequal.errors import UserError
from unequal.evidence.words import SAME
from unequal.reporting.statements import signed
from unequal.reporting.tables import with_prefix
from unequal.settings.strict import Strict, read_yaml, validate
from unequal.tools.told import told, with_figures

STUDIES, CLAIM = Path("studies"), "claim.yaml"
#: How README calls the endpoints of studies.
ENDPOINTS = {
    "loss_over_timesteps": "held-out loss",
    "x0_loss_over_log_snr": "error of x0",
    "fid": "FID",
    "images_for_fid": "images for the same FID",
    "images_for_loss_over_timesteps": "images for the same held-out loss",
}


class Judged(JudgedFigures):
    """An endpoint of a study, and δ of its logarithm."""

    delta: PositiveFloat


class Claim(Strict):
    """claim.yaml of a study: what a paper says that pays, and what of the study is README's sentence about it."""

    paper: str = Field(min_length=1, description="the paper and its claim, in few words")
    told: dict[str, str] = Field(
        min_length=1,
        description="in words, with figures as told.md has them, what is compared → how the study calls it",
    )
    endpoints: tuple[str, ...] = Field(min_length=1, description="those that the sentence has")


def answers(studies: Path = STUDIES) -> str:
    """Markdown of a sentence a study that tries a paper's claim, by papers; of one that has not been run it says so.

    Raises:
        UserError: a claim is none, or a study's findings are no such file, or lack a comparison.
    """
    files = sorted(studies.glob(f"*/{CLAIM}"))
    return "\n".join(sorted(f"- {answer(validate(Claim, read_yaml(file), file), file.parent)}" for file in files))


def answer(claim: Claim, study: Path) -> str:
    """A claim's sentence, with the data, the network and the budget that it holds for."""
    link = f"[{study.name}](studies/{study.name})"
    path = study / "results/findings.json"
    if not path.exists():
        return f"**{claim.paper}** ({link}): not run yet."
    found = read_figures(path, StudyFigures)
    several = len(claim.endpoints) > 1  # else it is told once, and not of each comparison
    by = "" if several else f", {ENDPOINTS[claim.endpoints[0]]}"
    compared = (
        f"{with_figures(what, path.parent, study / CLAIM)}, "
        + ", ".join(f"{ENDPOINTS[one]} " * several + change(found, key, one, path) for one in claim.endpoints)
        for what, key in claim.told.items()
    )
    network, budget = (with_prefix(found[key]) for key in ("parameters", "images"))
    subject, *_, values = found["data"].split(", ")
    data, blocks = f"{subject}, {values.removesuffix(' values each')}", len(found["blocks"])
    held_for = f"on {data}, {network} parameters, {budget} images, {blocks} blocks{by}"
    return f"**{claim.paper}** ({link}), {held_for}: {'; '.join(compared)}."


def change(found: Mapping[str, Any], comparison: str, endpoint: str, path: Path) -> str:
    """As `+3.2 % (−1.0 to +7.5): undecided`."""
    family = found["endpoints"].get(endpoint, {})
    judged = family.get("comparisons", {})
    if comparison not in judged:
        raise UserError(f"{path}: nothing is said of '{comparison}' by {endpoint}; make the study's report again")
    one = judged[comparison]
    change, low, high = (signed(100 * one[key]) for key in ("change", "low", "high"))
    word = one["word"]
    if word == SAME:
        word = f"{word} within {100 * validate(Judged, family, path).delta:.3g} %"
    return f"{change} % ({low} to {high}): {word}"


def words(study: Path, template: str) -> str:
    """What a study says: of its comparisons, where it makes any, and in its prose, with its figures.

    Raises UserError where it has not been run, or lacks a figure.
    """
    if not (study / template).exists():
        raise UserError(f"{study}: nothing is told of it; allowed: a study that has been run, with {template}")
    prose, table = told(study / template, study / "results"), study / "results/findings.md"
    return f"{table.read_text(encoding='utf-8')}\n{prose}" if table.exists() else prose
