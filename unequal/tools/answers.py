"""What studies have come to: a sentence a paper for README.md, and their words on docs/findings.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unequal.artifacts.figures import StudyFigures, read_figures
from unequal.errors import UserError
from unequal.reporting.statements import signed

STUDIES = Path("studies")
#: How README calls the endpoints of studies.
ENDPOINTS = {
    "loss_over_timesteps": "held-out loss",
    "x0_loss_over_log_snr": "error of x0",
    "fid": "FID",
    "images_for_fid": "images for the same FID",
}


@dataclass(frozen=True)
class Claim:
    """A paper's claim, and where it was tried.

    Attributes:
        paper: what the paper says that pays.
        study: the folder's name below studies.
        told: in words, what is held against what → the comparison, as findings.json has it.
        endpoints: those that the sentence has.
    """

    paper: str
    study: str
    told: Mapping[str, str]
    endpoints: tuple[str, ...]


#: One a paper.
CLAIMS = (
    Claim(
        "Paper 1, small batches fail",
        "small_batches",
        {"batches of 8 against 128, each at its rate": "batch_8 against batch_128"},
        ("loss_over_timesteps", "fid"),
    ),
    Claim(
        "Paper 2, a curriculum is faster",
        "curricula",
        {"by noise rate against uniform timesteps": "noise_rate against uniform"},
        ("images_for_fid", "fid"),
    ),
    Claim(
        "Paper 3, experts by SNR",
        "experts",
        {
            "against one model trained on for as many images": "snr against joint",
            "with the paper's budget": "paper against joint",
        },
        ("loss_over_timesteps", "fid"),
    ),
)


def answers(studies: Path = STUDIES) -> str:
    """Markdown of a sentence a paper; of a study that has not been run it says so.

    Raises:
        UserError: a study's findings are no such file, or lack a comparison.
    """
    return "\n".join(f"- {answer(one, studies)}" for one in CLAIMS)


def answer(claim: Claim, studies: Path) -> str:
    """A claim's sentence, with the data, the network and the budget that it holds for."""
    link = f"[{claim.study}](studies/{claim.study})"
    path = studies / claim.study / "results/findings.json"
    if not path.exists():
        return f"**{claim.paper}**: not run yet ({link})."
    found = read_figures(path, StudyFigures)
    told = "; ".join(f"{what}, {changes(found, key, claim.endpoints, path)}" for what, key in claim.told.items())
    return f"**{claim.paper}**: {told} ({link}: {found['first'].rstrip('.')})."


def changes(found: Mapping[str, Any], comparison: str, endpoints: tuple[str, ...], path: Path) -> str:
    """A comparison's change, interval and word by each endpoint."""
    return ", ".join(change(found, comparison, endpoint, path) for endpoint in endpoints)


def change(found: Mapping[str, Any], comparison: str, endpoint: str, path: Path) -> str:
    """As `FID +3.2 % (−1.0 to +7.5): undecided`."""
    judged = found["endpoints"].get(endpoint, {}).get("comparisons", {})
    if comparison not in judged:
        raise UserError(f"{path}: nothing is said of '{comparison}' by {endpoint}; make the study's report again")
    one = judged[comparison]
    change, low, high = (signed(100 * one[key]) for key in ("change", "low", "high"))
    return f"{ENDPOINTS[endpoint]} {change} % ({low} to {high}): {one['word']}"


def words(study: str, studies: Path = STUDIES) -> str:
    """What a study says of its comparisons, as its own README has it. Raises UserError where it has not been run."""
    path = studies / study / "results/findings.md"
    if not path.exists():
        raise UserError(f"{path}: missing; run the study first")
    return path.read_text(encoding="utf-8")
