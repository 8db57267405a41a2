"""torch-fidelity without torchvision's networks, which are there all the same for whoever asks."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

import torch
from unequal.evaluation import fidelity

heavy = {"torch._dynamo", "scipy.stats", "torchvision.models.resnet", "torchvision.ops.boxes"}
assert heavy & sys.modules.keys() == set(), heavy & sys.modules.keys()
import torchvision
from torchvision.models import resnet18

assert resnet18(num_classes=7).eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 7)
boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]])
assert torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist() == [0, 2]
"""


@pytest.mark.slow
def test_scores_import_no_networks_which_are_there_when_they_are_asked_for() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
