"""One network out of diffusers without all others, which are there all the same for whoever asks."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

from unequal.models.backbones.unet2d.backbone import UNet2DModel

heavy = {"torch._dynamo", "scipy.stats", "diffusers.models.transformers.dit_transformer_2d"}
assert heavy & sys.modules.keys() == set(), heavy & sys.modules.keys()
from diffusers import DiTTransformer2DModel
from diffusers.models import transformers, unets

assert UNet2DModel is unets.UNet2DModel
assert DiTTransformer2DModel is transformers.DiTTransformer2DModel
import torch

assert torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1)).item() == 1
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_what_was_not_imported_is_there_when_it_is_asked_for() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
