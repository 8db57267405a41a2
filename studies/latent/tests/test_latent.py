"""The report on latents: its verdict on the autoencoder, and where its figures stand."""

import numpy as np
import pytest

from studies.latent.claims import decoding_costs_less, verdicts
from studies.latent.findings import LatentFindings
from studies.latent.tables import autoencoder_table, limits_table, scores_table
from unequal.artifacts.partitions import GroupTable, NumberedGroup
from unequal.diffusion.schedule import NoiseSchedule
from unequal.reporting.tables import Variant
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED

T = 30
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


def found(fid: float = 2.0, sd: float | None = 0.1, decoded: float = 0.5) -> LatentFindings:
    def variant(name: str, steps: tuple[int, ...]) -> Variant:
        return Variant(name, fid, sd, 0.1, sd, 1 if sd is None else 2, 10, 20, 30, 40, steps)

    losses = np.geomspace(1, 0.001, T)[:, None] * np.random.default_rng(0).uniform(0.9, 1.1, (T, 4))
    return LatentFindings(
        losses={"base": {"train": losses, "holdout": losses}},
        floor=np.zeros((T, 0)),
        schedule=NoiseSchedule.linear(T),
        groups=GROUPS,
        group_shares=[0.6, 1.0],
        variants={"base": variant("base", (5,)), "experts_pruned": variant("experts_pruned", (2, 3))},
        references={
            "real_against_real": {"fid": 0.1, "kid": 0.0} | OTHER_SCORES,
            "noise_against_real": {"fid": 20.0, "kid": 2.0} | OTHER_SCORES,
            "real_sets": "half against half",
            "reconstructions": {"fid": decoded, "kid": 0.01} | OTHER_SCORES,
        },
        autoencoder={
            "kind": "VQModel",
            "latent_shape": [4, 8, 8],
            "scaling_factor": 0.5,
            "parameters": 1500,
            "decoding_flops_per_image": 2_000_000,
            "psnr_holdout": 27.96,
        },
        samples={},
        images={"shape": [3, 16, 16]},
        base={},
    )


@pytest.mark.parametrize(
    ("fid", "sd", "decoded", "word"),
    [(2.0, 0.1, 0.5, HELD), (2.0, 0.1, 1.9, UNDECIDED), (2.0, 0.1, 2.3, NOT_HELD), (2.0, None, 0.5, UNDECIDED)],
)
def test_the_autoencoder_is_held_against_what_is_sampled(
    fid: float, sd: float | None, decoded: float, word: str
) -> None:
    assert decoding_costs_less(found(fid, sd, decoded)).verdict == word


def test_the_base_is_asked_how_unequal_its_timesteps_are() -> None:
    keys = ["losses_differ", "decoding_costs_less", "pruned_experts_beat_base", "limits_are_met"]
    assert [one.key for one in verdicts(found())] == keys
    assert verdicts(found())[0].verdict == HELD


def test_groups_stand_beside_what_their_experts_take() -> None:
    rows = limits_table(found()).rows
    assert [row[3:] for row in rows] == [("0.625", "0.600", "2"), ("1.000", "1.000", "3")]
    assert {one.key: one.verdict for one in verdicts(found())}["limits_are_met"] == HELD


def test_decoding_stands_first_among_the_rows_of_the_scale() -> None:
    table = scores_table(found())
    assert tuple(table.references[0][:2]) == ("real images, decoded again", "0.500")
    assert len(table.references) == 3
    assert "decoding an image takes 2.00 M besides" in table.note


def test_the_autoencoder_by_itself() -> None:
    (row,) = autoencoder_table(found()).rows
    # 3 · 16 · 16 values for 4 · 8 · 8.
    assert row == ("VQModel", "4×8×8", "3", "1.50 k", "2.00 M", "28.0 dB", "0.5")
