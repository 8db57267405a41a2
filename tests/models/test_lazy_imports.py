"""Imports stay few: one network of diffusers imports no others, which are there for whoever asks for them."""

import subprocess
import sys

import pytest

#: A training, then what scores need besides; what is heavy is imported by whoever asks for it alone.
FEW = """
import sys

import stages.train_base

files = {name for name, one in sys.modules.items() if not hasattr(one, "__path__")}
ours = sorted(name for name in files if name.startswith("unequal."))
assert len(ours) <= 60, ours

import torch
from unequal.evaluation import fidelity
from unequal.models.backbones.unet2d.backbone import UNet2DModel

heavy = {"torch._dynamo", "scipy.stats", "torchvision.models.resnet", "torchvision.ops.boxes"}
heavy |= {"diffusers.models.transformers.dit_transformer_2d"}
assert heavy & sys.modules.keys() == set(), heavy & sys.modules.keys()
from diffusers import DiTTransformer2DModel
from diffusers.models import transformers, unets

assert UNet2DModel is unets.UNet2DModel
assert DiTTransformer2DModel is transformers.DiTTransformer2DModel
import torchvision
from torchvision.models import resnet18

assert resnet18(num_classes=7).eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 7)
boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]])
assert torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist() == [0, 2]
"""
COMPILER = """
assert torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1)).item() == 1
"""


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("program", [FEW, FEW + COMPILER], ids=["few", "compiler"])
def test_what_was_not_imported_is_there_when_it_is_asked_for(program):
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
