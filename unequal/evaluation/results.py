"""What a scoring leaves behind: the figures of a variant, and pictures for the report."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unequal.evaluation.variant import Scoring
from unequal.sampling.ensemble import Ensemble


def write_scores(scoring: Scoring, experts: Ensemble, variant: str, more: Mapping[str, Any] | None = None) -> None:
    """Score a variant and write its figures, with more beside them, and its first samples as the stage's outputs."""
    workspace = scoring.workspace
    figures = scoring.figures(experts, variant) | dict(more or {})
    np.save(workspace.output(f"artifacts/samples/{variant}.npy"), scoring.shown(experts, variant))
    workspace.metrics(f"results/fid/{variant}.json", figures, headline={f"fid_{variant}": figures["fid_mean"]})
