"""Bases of other kinds go the way of every base: one with learned variance, and one taken from elsewhere."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from diffusers import DDIMScheduler
from openai_unet import OpenAIUNet
from small_inputs import RECIPE
from specs import class_labels

from stages import build_extractor, evaluate_fid, finetune_groups, group_timesteps, profile_loss, prune, train_base
from unequal.cli.export import export
from unequal.evaluation.profiles import read_errors
from unequal.models.folder import load_model, load_record
from unequal.models.pruned import load_any_model
from unequal.runtime.files import read_json
from unequal.sampling.ensemble import Ensemble

pytestmark = pytest.mark.slow

EXTRACTOR = {"kind": "classifier", "weights": None, "features": 4, "images": 1280, "batch_size": 32, "lr": 1.0e-2}
SHORT = RECIPE | {"images": 16}


@pytest.fixture
def write(write_project):
    """Settings of a small pipeline, for a network like that."""

    def write(min_ratio: float = 0.5, **network: Any) -> None:
        write_project(
            network,
            {"batch_size": 8},
            recipes={"base": SHORT, "expert": SHORT | {"sampler": {"density": "slot"}}},
            profile={"images": 2, "batch_size": 50, "floor": "none"},
            groups={"kind": "snr", "ids": [0, 1], "min_ratio": min_ratio},
            pruning={"taylor": {"method": "taylor", "timesteps": "group", "images": 8}},
            extractor=EXTRACTOR,
            sampling={
                "steps": 4, "spacing": "uniform", "eta": 1.0, "clip": True, "batch_size": 16,
                "variance": "learned" if network.get("variance") == "learned" else "posterior",
            },
            evaluation={"samples": 12, "seeds": [0], "kid_subset": 6, "allow_singular": False},
        )  # fmt: skip

    return write


def run(program: Any, *options: str) -> None:
    result = CliRunner().invoke(program.main, options)
    assert result.exit_code == 0, result.output


def prune_and_finetune() -> None:
    for group in ("0", "1"):
        run(prune, "--method", "taylor", "--group", group)
        shutil.copytree(f"artifacts/pruned/taylor/group_{group}", f"artifacts/pruned/expert/group_{group}")
        run(finetune_groups, "--architecture", "pruned", "--group", group)


@pytest.mark.thorough
def test_a_base_with_learned_variance_and_attention_goes_through_the_pipeline(write):
    """A pruned model is trained on, profiled, sampled and exported like any other."""
    write(variance="learned", attention_resolutions=(8, 4))
    run(train_base)
    base = load_record(Path("artifacts/models/base"))
    assert base.spec.variance == "learned"
    run(profile_loss, "--model", "base")
    with np.load("artifacts/profiles/base.npz") as tables:
        # ε alone is profiled: an untrained network loses about 1 at most timesteps, and nothing of the bound's size.
        assert 0.5 < float(tables["holdout"].mean()) < 2
    run(group_timesteps)
    run(build_extractor)
    prune_and_finetune()
    net, expert = load_any_model(Path("artifacts/models/experts_pruned/group_0"))
    assert expert.spec == base.spec
    assert expert.macs < base.macs
    assert net.conv_out.out_channels == 2
    run(profile_loss, "--model", "experts_pruned")
    measured = read_errors(Path("artifacts/profiles/experts_pruned.npz"))
    assert measured.epsilon.shape == measured.x0.shape == (50, 2)
    run(evaluate_fid, "--model", "experts_pruned")
    figures = json.loads(Path("results/fid/experts_pruned.json").read_text())
    assert figures["sampling"]["variance"] == "learned"
    assert figures["fid_mean"] > 0
    assert 0 <= figures["precision_mean"] <= 1
    assert figures["fid_half"] == "FID of the first 6 samples of a seed, from the same reference"
    assert figures["extractor_accuracy"] == read_json(Path("results/metrics/extractor.json"))["holdout_accuracy"]
    assert figures["sampling_flops_per_image"] < 4 * base.macs
    export("experts_pruned", Path("all"))
    export("experts_pruned/group_0", Path("one"))
    assert [expert.record.group for expert in Ensemble.load("all").experts] == [0, 1]
    taken, _ = load_any_model(Path("one"))
    assert all(torch.equal(a, b) for a, b in zip(taken.parameters(), net.parameters(), strict=True))


@pytest.mark.thorough
def test_a_class_conditional_checkpoint_goes_through_the_pipeline(write):
    """Every stage passes the labels of the data to the network and to its pruned form."""
    net = OpenAIUNet(64, multiples=(1,), attended=(), layers=1, inputs=1, outputs=1, classes=2)
    torch.save(net.state_dict(), "model.pt")
    flags = {"num_heads": 1, "rescale_timesteps": False}
    write(0.7, pretrained="model.pt", openai=flags, condition=class_labels(2))
    run(train_base)
    base, record = load_model(Path("artifacts/models/base"))
    assert (record.spec.condition, record.images_seen) == (class_labels(2), 0)
    assert torch.equal(base.class_embedding.weight, net.label_emb.weight)
    run(profile_loss, "--model", "base")
    run(group_timesteps)
    run(build_extractor)
    prune_and_finetune()
    expert, its = load_any_model(Path("artifacts/models/experts_pruned/group_0"))
    assert its.spec.condition == class_labels(2)
    assert its.macs < record.macs
    assert not torch.equal(expert.class_embedding.weight, base.class_embedding.weight)
    run(evaluate_fid, "--model", "experts_pruned")
    export("base", Path("one"))
    assert Ensemble.load("one").sample(2, [40, 5], labels=torch.tensor([0, 1])).shape == (2, 1, 8, 8)
    write(pretrained="model.pt", openai=flags, condition=class_labels(3))
    result = CliRunner().invoke(train_base.main)
    said = "network.condition.classes: 3, but network.pretrained 'model.pt' takes 2 classes"
    assert said in result.output.splitlines()[-1]


def test_a_pretrained_base_is_held_against_the_settings(write, tiny_net):
    tiny_net().save_pretrained("taken")
    DDIMScheduler(num_train_timesteps=50, beta_start=0.002, beta_end=0.4).save_pretrained("taken")
    write(pretrained="taken")
    run(train_base)
    net, record = load_model(Path("artifacts/models/base"))
    assert (record.images_seen, record.spec.timesteps, record.spec.prediction) == (0, 50, "epsilon")
    assert all(torch.equal(value, tiny_net().state_dict()[name]) for name, value in net.state_dict().items())
    DDIMScheduler(num_train_timesteps=60).save_pretrained("taken")
    result = CliRunner().invoke(train_base.main)
    assert result.exit_code == 1
    replaced, refusal = result.output.splitlines()
    assert replaced.startswith("artifacts/sources/network.json: replaced since the engine began")
    assert "schedule.timesteps: 50, but network.pretrained 'taken' was trained with 60" in refusal
