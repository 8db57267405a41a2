"""Figures of all replicas, gathered from their folders."""

from pathlib import Path

import pytest
from one_line import refusal

from unequal.artifacts.figures import outcomes, read_replicas
from unequal.files import write_json

LOSSES = ("loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr")


def replica(folder: Path, value: float) -> Path:
    (folder / "results/fid").mkdir(parents=True)
    (folder / "results/metrics").mkdir(parents=True)
    write_json(folder / "results/fid/base.json", {"fid_mean": value, "fid_sd": None})
    write_json(folder / "results/metrics/profile_base.json", dict.fromkeys(LOSSES, value / 10))
    return folder


def test_values_stand_in_the_order_of_the_folders(tmp_path: Path) -> None:
    folders = [replica(tmp_path / name, value) for name, value in (("b", 2.0), ("a", 1.0), ("c", 3.0))]
    assert outcomes(folders, ["base"], ["base"]) == {
        "fid": {"base": [2.0, 1.0, 3.0]},
        **{name: {"base": [0.2, 0.1, 0.3]} for name in LOSSES},
    }


def test_a_replica_that_lacks_a_figure_is_named(tmp_path: Path) -> None:
    folder = replica(tmp_path / "a", 1.0)
    assert "a/results/fid/longer.json" in refusal(outcomes, [folder], ["base", "longer"], ["base"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"seeds": [0, 1, 2], "endpoints": {"fid": {"base": [1.0, 2.0]}}}, "2 values for 3 seeds"),
        ({"seeds": [0], "endpoints": {"fid": {"base": ["low"]}}}, "low"),
        ({"seeds": [], "endpoints": {}}, "seeds"),
        ([1, 2], "replicas.json"),
    ],
)
def test_damaged_gatherings_are_refused(tmp_path: Path, content: object, message: str) -> None:
    write_json(tmp_path / "replicas.json", content)
    assert message in refusal(read_replicas, tmp_path / "replicas.json")
