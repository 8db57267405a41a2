"""Profiles of OpenAI's `.pt` files: their flags decide what the tensors do not show."""

import diffusers_folders as tiny
import numpy as np
import pytest
import torch
from one_line import refusal
from openai_unet import OpenAIUNet
from PIL import Image
from profiled import document

from unequal.cli import main as command
from unequal.diffusion.predictions import add_noise
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.profiling import Draws
from unequal.profiler.document import Losses
from unequal.profiler.measure import ProfileConfig, profile
from unequal.profiler.openai_file import read_flags
from unequal.profiler.page import slots_table

FLAGS = (
    "--attention_resolutions 2 --class_cond False --image_size 8 --learn_sigma True --num_channels 32 --num_heads 4 "
    "--num_res_blocks 1 --noise_schedule linear --use_scale_shift_norm True"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny network with four heads at levels of two widths, and six images."""
    root = tmp_path_factory.mktemp("openai")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = OpenAIUNet(heads=4, attended=(0, 1), layers=1, inputs=1, outputs=2)
        with torch.no_grad():
            for one in net.parameters():
                one.add_(0.1 * torch.randn(one.shape))
    torch.save(net.state_dict(), root / "ema.pt")
    torch.save(net, root / "whole.pt")
    tiny.write_images(root / "train", 6)
    return root


@torch.no_grad()
def test_losses_are_those_of_the_file_s_own_network(folder, tmp_path):
    chosen = {"draws": 2, "timesteps": 3, "flags": FLAGS}
    config = ProfileConfig(str(folder / "ema.pt"), folder / "train", None, tmp_path, torch.device("cpu"), **chosen)
    found = profile(config).document
    assert (found.model, found.prediction, found.shape) == (config.model, "epsilon", (1, 8, 8))
    net = OpenAIUNet(heads=4, attended=(0, 1), layers=1, inputs=1, outputs=2).eval()
    net.load_state_dict(torch.load(config.model, weights_only=True))
    schedule = NoiseSchedule.named("linear", 1000)
    files = sorted((folder / "train").iterdir())
    images = torch.from_numpy(np.stack([np.asarray(Image.open(file))[None] for file in files]))
    for row, t in enumerate(found.timesteps):
        draws = Draws.of(images, 1000, 2, 0, torch.device("cpu"))
        x0, epsilon, timesteps, _ = next(draws.batches(2, range(2 * t, 2 * t + 2)))
        x_t = add_noise(x0, epsilon, *schedule.at(timesteps, x0))
        loss = (net(x_t, timesteps)[:, :1] - epsilon).square().mean()
        assert found.losses["train"].mean[row] == pytest.approx(float(loss), rel=1e-3)


def test_slots_stand_next_to_those_of_the_paper():
    """Losses of equal sums over the paper's slots give these slots back, in both columns."""
    lengths = np.array([5, 8, 10, 14, 19, 26, 38, 57, 100, 723])
    figures = tuple(np.repeat(1 / lengths, lengths))
    losses = Losses(mean=figures, stderr=figures, second_moment=figures)
    measured = {"timesteps": tuple(range(1000)), "images": {"train": 1}, "losses": {"train": losses}}
    known = document().model_copy(update=measured)
    table = slots_table(known)
    assert table is not None and table.columns[-1] == "paper 1, Table 1"
    assert [row[1] for row in table.rows] == [row[3] for row in table.rows]
    assert table.rows[0][1:3] == ("0 … 4", "0.5%")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--image_size", "'--image_size' has no value"),
        ("--colour red", "'--colour' is unknown; allowed: --image_size"),
        ("--diffusion_steps 4000", "--rescale_timesteps is missing"),
        ('--image_size "8', "No closing quotation"),
    ],
)
def test_unknown_flags_are_refused(flags, said):
    assert said in refusal(read_flags, flags)


@pytest.mark.parametrize(
    ("model", "flags", "said"),
    [
        ("ema.pt", None, "ema.pt: needs --flags"),
        ("ema.pt", "--image_size 9", "cannot be"),
        ("ema.pt", "--num_heads 5", "which 5 heads do not divide"),
        ("ema.pt", "--predict_xstart perhaps", "--predict_xstart perhaps: Input should be a valid boolean"),
        ("ema.pt", "--diffusion_steps 4000 --rescale_timesteps True", "allowed: 1000, or False"),
        ("none.pt", "--image_size 8", "none.pt: no such file"),
        ("whole.pt", "--image_size 8", "holds more than tensors"),
        ("train", "--image_size 8", "--flags: of a .pt file alone"),
    ],
)
def test_unfit_files_are_errors_in_one_line(folder, tmp_path, capsys, model, flags, said):
    asked = ["profile", str(folder / model), "--train", str(folder / "train"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        command.run([*asked, "--device", "cpu", *([] if flags is None else ["--flags", flags])])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 1 and line.startswith("Error: ") and said in line
    assert not (tmp_path / "out" / "timesteps.json").exists()
