"""Verdicts, tables and pictures of small batches, on a made-up study whose answers are known."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.stats import spearmanr
from small_batches_data import BATCHES, RECIPES, SEEDS, UNIFORM, fids, gradients

from studies.small_batches.claims import correlations, noise_scale, verdicts
from studies.small_batches.figures import CAPTIONS, cosines, fid_batches, gradient_lengths, variance_fid
from studies.small_batches.findings import BatchFindings, whole
from studies.small_batches.tables import batches_table, samplers_table, slots_table, trial_rows
from unequal.reporting.figures import save
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED


def study(**changes: Any) -> BatchFindings:
    steps = {name: 6400 // (int(name[1].split("x")[0]) * int(name[1].split("x")[1])) for name in fids()}
    made = BatchFindings(fids(), steps, "uniform", tuple(RECIPES), BATCHES, gradients(), 6400)
    return replace(made, **changes)


def words(found: BatchFindings) -> dict[str, str]:
    return {one.key: one.verdict for one in verdicts(found)}


def scaled(found: BatchFindings, recipe: str, factor: float) -> BatchFindings:
    """The same study with other FIDs of one recipe."""
    table = {
        name: tuple(factor * np.array(values)) if name[0] == recipe else values for name, values in found.fids.items()
    }
    return replace(found, fids=table)


def test_the_verdicts_are_those_of_the_made_up_study() -> None:
    assert words(study()) == {
        "small_batches_lose": HELD,
        "timesteps_scatter_gradients": NOT_HELD,
        "slots_oppose": NOT_HELD,
        "stratified_pays": HELD,
        "stratified_unweighted_pays": NOT_HELD,
        "accumulation_restores": HELD,
        "low_discrepancy_pays": UNDECIDED,
        "adaptive_pays": HELD,
        "adaptive_has_least_variance": HELD,
        "variance_ranks": HELD,
    }


def test_verdicts_turn_with_the_figures() -> None:
    found = study()
    swapped = {
        name: found.fids[name[0], {"8x1": "128x1", "128x1": "8x1"}.get(name[1], name[1])]
        for name in [name for name in found.fids if name[0] == "uniform"]
    }
    assert words(replace(found, fids=found.fids | swapped))["small_batches_lose"] == NOT_HELD
    assert words(scaled(found, "adaptive", 1.5))["adaptive_pays"] == NOT_HELD
    assert words(scaled(found, "adaptive", 3))["variance_ranks"] != HELD
    far = {("uniform", "8x4"): tuple(1.2 * np.array(found.fids["uniform", "8x4"]))}
    assert words(replace(found, fids=found.fids | far))["accumulation_restores"] == NOT_HELD
    noisy = gradients()
    noisy["cosines"][0][1] = noisy["cosines"][1][0] = -0.4
    for row in noisy["batches"]:
        row["between_share"] = 0.9
    assert words(replace(found, gradients=noisy))["slots_oppose"] == HELD
    assert words(replace(found, gradients=noisy))["timesteps_scatter_gradients"] == HELD


def test_one_seed_decides_nothing_about_fid() -> None:
    single = study(fids={name: values[:1] for name, values in fids().items()})
    found = words(single)
    for key in ("small_batches_lose", "adaptive_pays", "accumulation_restores", "variance_ranks"):
        assert found[key] == UNDECIDED


def test_ranks_are_spearmans() -> None:
    found = study()
    names = [name for name, (_, variance) in RECIPES.items() if variance]
    expected = []
    for seed in range(len(SEEDS)):
        by_batch = [
            spearmanr([RECIPES[one][1] for one in names], [found.fids[one, batch][seed] for one in names]).statistic
            for batch in BATCHES
        ]
        expected.append(np.mean(by_batch))
    assert found.comparable == names
    assert correlations(found) == pytest.approx(expected)


def test_the_noise_scale_does_not_depend_on_the_batch() -> None:
    assert noise_scale(study()) == pytest.approx(80 / 0.1)
    lost = gradients()
    lost["batches"][0]["mean_square"] = -1e-9
    assert noise_scale(study(gradients=lost)) is None
    assert "noise" not in verdicts(study(gradients=lost))[0].summary


def test_tables_hold_every_sampler_batch_and_slot() -> None:
    found = study()
    rows = {row[0]: row for row in samplers_table(found).rows}
    assert list(rows) == ["uniform", "stratified", "stratified unweighted", "low discrepancy", "adaptive"]
    assert rows["adaptive"][-1] == "0.500 ± 0.010"
    assert rows["stratified unweighted"][-1].endswith("(another gradient)")
    assert all(len(row) == 2 + len(BATCHES) for row in rows.values())
    assert [row[0] for row in batches_table(found).rows] == ["8x1", "32x1", "8x4", "128x1"]
    assert [row[2] for row in batches_table(found).rows] == ["800", "200", "200", "50"]
    shares = [float(row[-1].removesuffix(" %")) for row in slots_table(found).rows]
    # Shares of timesteps 0.1, 0.2, 0.7 by second moments 100, 25, 1.
    assert shares == pytest.approx([100 * 10 / 15.7, 100 * 5 / 15.7, 100 * 0.7 / 15.7], abs=0.06)


def test_every_training_has_a_row() -> None:
    rows = trial_rows(study(), SEEDS)
    assert len(rows) == len(SEEDS) * (len(RECIPES) * len(BATCHES) + 2)
    assert rows[0] == {
        "recipe": "uniform",
        "batch": "8x1",
        "images_a_step": 8,
        "seed": 0,
        "fid": fids()["uniform", "8x1"][0],
    }


def test_accumulated_parts_belong_to_the_whole_batch() -> None:
    assert [whole(batch) for batch in UNIFORM] == ["8x1", "32x1", "32x1", "128x1"]


def test_pictures_are_drawn(tmp_path: Path) -> None:
    for draw in (fid_batches, cosines, gradient_lengths, variance_fid):
        path = save(tmp_path / f"{draw.__name__}.png", (8.4, 4.4), partial(draw, found=study()))
        assert draw.__name__ in CAPTIONS
        assert imread(path)[..., :3].std() > 0.05
