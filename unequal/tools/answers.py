"""What studies have come to: a sentence a paper for README.md, and their words on docs/findings.md."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, PositiveFloat

from unequal.artifacts.figures import JudgedFigures, StudyFigures, read_figures
from unequal.errors import UserError
from unequal.evidence.words import SAME
from unequal.report.formatting import signed, with_prefix
from unequal.settings.strict import Strict, read_yaml, validate
from unequal.tools.told import told, with_figures

STUDIES, CLAIM, FOUND = Path("studies"), "claim.yaml", Path("results/findings.json")
#: How README calls the endpoints of studies.
ENDPOINTS = {
    "loss_over_timesteps": "held-out loss",
    "loss_over_log_snr": "held-out loss over log-SNR",
    "x0_loss_over_log_snr": "error of x0",
    "fid": "FID",
    "images_for_fid": "images for the same FID",
    "images_for_loss_over_timesteps": "images for as low a loss",
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


@dataclass(frozen=True)
class Answer:
    """What a study says of a claim.

    Attributes:
        claim: of a paper.
        study: its folder.
        found: its findings; None where it has not been run.
    """

    claim: Claim
    study: Path
    found: Mapping[str, Any] | None

    @classmethod
    def read(cls, file: Path) -> Self:
        """From claim.yaml and what lies beside it."""
        path = file.parent / FOUND
        found = read_figures(path, StudyFigures) if path.exists() else None
        return cls(validate(Claim, read_yaml(file), file), file.parent, found)

    @property
    def setting(self) -> str | None:
        """Data and network that it holds for."""
        if self.found is None:
            return None
        subject, *_, values = self.found["data"].split(", ")
        network = with_prefix(self.found["parameters"])
        return f"on {subject}, {values.removesuffix(' values each')}, {network} parameters"

    def sentence(self, setting: str | None) -> str:
        """With its budget, and with data and network where they are not those that have been named."""
        link = f"[{self.study.name}](studies/{self.study.name})"
        if self.found is None:
            return f"**{self.claim.paper}** ({link}): not run yet."
        where = [] if self.setting == setting else [self.setting]
        held_for = [*where, f"{with_prefix(self.found['images'])} images", f"{len(self.found['blocks'])} blocks"]
        held_for.append(" and ".join(ENDPOINTS[one] for one in self.claim.endpoints))
        compared = "; ".join(self.compared(self.found))
        return f"**{self.claim.paper}** ({link}), {', '.join(map(str, held_for))}: {compared}."

    def compared(self, found: Mapping[str, Any]) -> Iterator[str]:
        """What is said of each comparison, by the endpoints in their order."""
        path = self.study / FOUND
        for what, key in self.claim.told.items():
            changes = " and ".join(change(found, key, one, path) for one in self.claim.endpoints)
            yield f"{with_figures(what, path.parent, self.study / CLAIM)}, {changes}"


def answers(studies: Path = STUDIES) -> str:
    """Markdown of a sentence a study that tries a paper's claim, by papers; of one that has not been run it says so.

    Data and network stand ahead of all of them where they are the same.

    Raises:
        UserError: a claim is none, or a study's findings are no such file, or lack a comparison.
    """
    read = [Answer.read(file) for file in sorted(studies.glob(f"*/{CLAIM}"))]
    settings = {one.setting for one in read if one.setting}
    shared = settings.pop() if len(settings) == 1 else None
    head = f"All {shared}:\n\n" if shared else ""
    return head + "\n".join(sorted(f"- {one.sentence(shared)}" for one in read))


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
