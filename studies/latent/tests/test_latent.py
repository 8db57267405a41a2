"""The report on latents: what it says of the autoencoder and of methods, and where its figures stand."""

import numpy as np
import pytest

from studies.latent.stages.report_latent import (
    LatentFindings,
    autoencoder_table,
    scores_table,
    sections,
)
from unequal.artifacts.profiles import TrainingCurve
from unequal.artifacts.timestep_files import GroupTable, NumberedGroup
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.results import Variant

T = 30
#: Of two sampling seeds.
SEED_FIDS = {"base": [2.0, 2.0], "longer": [1.6, 1.6], "experts_unpruned": [1.2, 1.2], "experts_pruned": [1.6, 1.6]}
OTHER_SCORES = {"fid_half": 1.0, "precision": 0.9, "recall": 0.8}
GROUPS = GroupTable(
    timesteps=T,
    schedule="linear",
    kind="snr",
    min_ratio=0.5,
    groups=(
        NumberedGroup(group=0, first=0, last=9, limit_ratio=0.625),
        NumberedGroup(group=1, first=10, last=29, limit_ratio=1.0),
    ),
)


def found() -> LatentFindings:
    def variant(name: str, steps: tuple[int, ...]) -> Variant:
        fids = SEED_FIDS[name]
        return Variant(name, sum(fids) / 2, 0.1, 0.1, 0.1, 2, 10, 20, 30, 40, steps)

    losses = np.geomspace(1, 0.001, T)[:, None] * np.random.default_rng(0).uniform(0.9, 1.1, (T, 4))
    return LatentFindings(
        losses={"base": {"train": losses, "holdout": losses}},
        floor=np.zeros((T, 0)),
        schedule=NoiseSchedule.linear(T),
        groups=GROUPS,
        group_shares=[0.6, 1.0],
        variants={name: variant(name, (2, 3) if name.startswith("experts") else (5,)) for name in SEED_FIDS},
        seed_fids=SEED_FIDS,
        base_training=TrainingCurve(np.arange(1, 21) * 100.0, np.full(20, 0.1), np.full(20, 50.0)),
        references={
            "real_against_real": {"fid": 0.1, "kid": 0.0} | OTHER_SCORES,
            "noise_against_real": {"fid": 20.0, "kid": 2.0} | OTHER_SCORES,
            "real_sets": "half against half",
            "reconstructions": {"fid": 0.5, "kid": 0.01} | OTHER_SCORES,
        },
        autoencoder={
            "kind": "VQModel",
            "latent_shape": [4, 8, 8],
            "scaling_factor": 0.5,
            "parameters": 1500,
            "parameters_per_step": 1500,
            "decoding_flops_per_image": 2_000_000,
            "psnr_holdout": 27.96,
        },
        samples={},
        images={"shape": [3, 16, 16]},
        base={},
    )


def test_what_is_said_is_what_was_put_in() -> None:
    first, compared, losses = sections(found())
    figures = {one.key: one.figures for one in (*first.statements, *compared.statements, *losses.statements)}
    assert figures["experts_unpruned"]["fid_change_percent"] == pytest.approx(-25)
    assert figures["experts_pruned"]["fid_change_percent"] == pytest.approx(100 / 3)
    assert figures["losses"]["ratio"] == pytest.approx(1000, rel=0.2)


def test_decoding_stands_first_among_the_rows_of_the_scale() -> None:
    table = scores_table(found())
    assert tuple(table.references[0][:2]) == ("real images, decoded again", "0.500")
    assert len(table.references) == 3
    assert "decoding an image takes 2.00 M more" in table.note


def test_the_autoencoder_by_itself() -> None:
    (row,) = autoencoder_table(found()).rows
    # 3 · 16 · 16 values for 4 · 8 · 8.
    assert row == ("VQModel", "4×8×8", "3", "1.50 k", "2.00 M", "28.0 dB", "0.5")
