"""The classifier whose features FID compares: the same bytes from the same seed."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from stage_project import write_params

from stages.build_extractor import main
from unequal.data.prepared import PreparedData
from unequal.files import content_hash

SETTINGS = {"kind": "classifier", "weights": None, "features": 4, "images": 64, "batch_size": 8, "lr": 1.0e-3}


def built(seed: int) -> str:
    """Hash of the classifier that a seed makes."""
    write_params(seed=seed, extractor=SETTINGS)
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0, result.output
    return content_hash(Path("artifacts/extractor/classifier.safetensors"))


@pytest.mark.usefixtures("project")
def test_the_classifier_is_decided_by_the_seed(prepared: PreparedData) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    assert built(0) == built(0)
    assert built(0) != built(1)
