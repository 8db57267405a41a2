"""Sections and captions of the pipeline's page."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unequal.evaluation.loss_profile import (
    LossProfile,
    endpoints,
)
from unequal.report.comparisons import (
    FURTHER_TRAINING,
    Comparison,
    Pairing,
    fid_differences,
    in_order,
    loss_differences,
    pairings,
)
from unequal.report.page import Table
from unequal.report.pipeline_statements import Readiness, final_slope, slot_statements, spread_of_losses
from unequal.report.results import Change, RunResults
from unequal.report.statements import Section

TITLE = "Timesteps are not equal: what this run shows"
SMOKE_TITLE = "A smoke run: its figures mean nothing"
#: Lead of the comparisons.
ONE_TRAINING = (
    "Each model was trained once. In brackets: 95 % measurement interval over sampling seeds (FID) or draws (losses); "
    "it does not cover retraining."
)
#: Heading and order of the comparisons, ranked or not.
RANKED = ("What paid in this run?", "Lowest FID relative to the control first.")
UNRANKED = ("Results of the methods", "Not ranked, in the order of the variants.")


class RunComparisons(NamedTuple):
    """Comparisons of a run: the base trained further, which is the scale, and the methods in the page's order."""

    further: Sequence[Comparison]
    methods: Sequence[Comparison]
    ranked: bool


def compare(found: RunResults, recipes: Sequence[str], ranked: bool = True) -> RunComparisons:
    """Compare all methods of a run with their controls.

    Args:
        found: results of the run.
        recipes: recipes that train the base further.
        ranked: whether they are ranked if the base is ready.
    """
    ready = ranked and readiness(found).ready
    scale = [FURTHER_TRAINING] if FURTHER_TRAINING.method in found.variants else []
    compared = comparisons(found, [*scale, *pairings(found.variants, recipes)])
    return RunComparisons(compared[: len(scale)], in_order(compared[len(scale) :], ready), ready)


def sections(found: RunResults, compared: RunComparisons, changes: Mapping[str, Sequence[Change]]) -> list[Section]:
    """Statements of the page: readiness of the base, results of the methods, losses.

    Args:
        found: results of the run.
        compared: its methods.
        changes: split → changes of slots' losses.
    """
    first = [*readiness(found).statements(), *(one.statement() for one in compared.further)]
    methods = [one.statement() for one in compared.methods]
    losses = [spread_of_losses(LossProfile.of(found.losses["base"]["train"])), *slot_statements(changes)]
    return [
        Section("Is the base ready?", "", first),
        *([Section(*heading_and_lead(compared.ranked), methods)] if methods else []),
        Section("How unequal are timesteps?", "± is the standard error over draws of images and noise.", losses),
    ]


def heading_and_lead(ranked: bool) -> tuple[str, str]:
    """Heading and lead of the comparisons, ranked or not."""
    heading, order = RANKED if ranked else UNRANKED
    return heading, f"{order} {ONE_TRAINING}"


def documents(found: RunResults, compared: RunComparisons, said: Sequence[Section], variants: Table) -> dict[str, str]:
    """Markdown for other documents: the table of variants, the conditions, and statements besides comparisons."""
    known = {one.method.name for one in (*compared.further, *compared.methods)}
    statements = [one.text for section in said for one in section.statements if one.key not in known]
    return {
        "fid": variants.markdown(),
        "conditions": Table("Conditions", ("condition", ""), list(found.conditions().items())).markdown(),
        "findings": "".join(f"- {text}\n" for text in statements),
    }


def readiness(found: RunResults) -> Readiness:
    """Quality of the base, and the trend of its loss."""
    noise, real = (found.references[f"{kind}_against_real"]["fid"] for kind in ("noise", "real"))
    return Readiness(found.variants["base"].fid, noise, real, final_slope(found.trainings["base"]))


def comparisons(found: RunResults, pairs: Sequence[Pairing]) -> list[Comparison]:
    """Comparisons of methods with their controls by all shared endpoints."""
    names, variants = [(one.method, one.control) for one in pairs], found.variants
    fids, compared = fid_differences(found.seed_fids, names), endpoints(found.schedule)
    losses = [loss_differences(compared, found.errors, *pair) for pair in names]
    return [
        Comparison(variants[one.method], variants[one.control], fid, held_out, one.budget)
        for one, fid, held_out in zip(pairs, fids, losses, strict=True)
    ]
