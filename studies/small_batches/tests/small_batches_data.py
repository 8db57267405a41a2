"""A made-up study of small batches, whose answers are known."""

from typing import Any

import numpy as np

SEEDS = (0, 1, 2)
BATCHES = ("8x1", "32x1")
SLOTS = [[0, 9], [10, 29], [30, 99]]
#: Recipe → FID over uniform's, and gradient variance over uniform's; None: it has another gradient.
RECIPES: dict[str, tuple[float, float | None]] = {
    "uniform": (1.0, 1.0),
    "stratified": (0.9, 0.8),
    "stratified_unweighted": (1.3, None),
    "low_discrepancy": (1.0, 0.98),
    "adaptive": (0.8, 0.5),
}
#: Batch → FID of uniform timesteps; the accumulated one is that of as many images at once.
UNIFORM = {"8x1": 1.2, "32x1": 1.0, "8x4": 1.0, "128x1": 0.7}


def fids() -> dict[tuple[str, str], tuple[float, ...]]:
    """FIDs of every training: seeds differ by what all runs share, and a little besides."""
    generator = np.random.default_rng(0)
    names = [(recipe, batch) for recipe in RECIPES for batch in BATCHES]
    names += [("uniform", batch) for batch in UNIFORM if batch not in BATCHES]
    shared = np.array([1.0, 1.05, 0.95])
    return {
        (recipe, batch): tuple(UNIFORM[batch] * RECIPES[recipe][0] * shared * generator.normal(1, 2e-3, len(SEEDS)))
        for recipe, batch in names
    }


def gradients() -> dict[str, Any]:
    """What measure_gradients would have written."""
    rows = [
        {
            "sampler": recipe,
            "batch": size,
            "variance": 80 / size * (variance or 3.0),
            "relative_variance": variance or 3.0,
            "relative_variance_stderr": 0.0 if recipe == "uniform" else 0.01,
            "between_share": 0.02,
            "between_share_stderr": 0.001,
            "bias": 0.0 if variance else 0.3,
            "mean_square": 0.1,
        }
        for recipe, (_, variance) in RECIPES.items()
        for size in (8, 32)
    ]
    return {
        "slots": SLOTS,
        "cells": [[0, 4], [5, 9], [10, 29], [30, 99]],
        "second_moment": [100.0, 25.0, 1.0],
        "second_moment_stderr": [2.0, 1.0, 0.1],
        "mean_square": [0.5, 0.2, -0.001],
        "mean_square_stderr": [0.01, 0.01, 0.01],
        "cosines": [[1.0, 0.4, None], [0.4, 1.0, None], [None, None, None]],
        "cosines_stderr": [[0.0, 0.05, None], [0.05, 0.0, None], [None, None, None]],
        "batches": rows,
    }
