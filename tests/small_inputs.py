"""All that the stages of a small pipeline read of one another, sound as it is: what tests spoil."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params

from unequal.evaluation.classifier import Classifier, save_classifier
from unequal.evaluation.fidelity import CLASSIFIER, FACTS
from unequal.models.folder import ModelRecord, save_model
from unequal.models.pruned import take_away
from unequal.runtime.files import content_hash, write_json, write_npz

T = 50
SLOTS: dict[str, Any] = {"timesteps": T, "loss": "total", "slots": [[0, 9], [10, 49]]}
GROUPS: dict[str, Any] = {
    "timesteps": T,
    "schedule": "linear",
    "kind": "snr",
    "min_ratio": 0.5,
    "groups": [
        {"group": 0, "first": 0, "last": 9, "limit_ratio": 0.75},
        {"group": 1, "first": 10, "last": 49, "limit_ratio": 1.0},
    ],
}
SAMPLER: dict[str, Any] = {"density": "loss", "unbiased": False, "loss": [1.0] * T, "timesteps": T}
RECIPE: dict[str, Any] = {
    "images": 32,
    "prediction": "epsilon",
    "sampler": {"density": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1.0e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
#: A search for a pruning scheme, as small as can be.
PROXY: dict[str, Any] = {
    "method": "proxy", "decider": {"kind": "tpe"}, "ranking": {"method": "magnitude"}, "start": [], "rounds": 1,
    "candidates": 2, "images": 4, "finetuning": None,
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "seed": 0,
    "data": {"source": "digits", "path": None, "image_size": 8, "channels": 1, "fit": "exact", "holdout": 0.1},
    "schedule": {"name": "linear", "timesteps": T},
    "network": {
        "pretrained": None, "block_out_channels": [8, 16], "layers_per_block": 1, "attention_resolutions": [],
        "middle_attention": True, "attention_head_dim": 4, "norm_num_groups": 4, "scale_shift": False, "dropout": 0.0,
    },
    "training": {
        "batch_size": 8, "gradient_accumulation": 1, "gradient_clip": 1.0,
        "average": {"kind": "exponential", "decay": 0.9}, "horizontal_flips": False,
        "precision": "fp32", "log_every": 2, "checkpoint_every": 1,
    },
    "recipes": {
        "base": RECIPE,
        "longer": RECIPE | {"sampler": {"density": "loss"}},
        "slot": RECIPE | {"sampler": {"density": "slot"}},
        "expert": RECIPE | {"sampler": {"density": "slot"}},
    },
    "profile": {"images": 4, "batch_size": 64, "floor": "all"},
    "slots": {"count": 2, "loss": "total", "finetune": [1]},
    "groups": {"kind": "excess_loss", "ids": [0, 1], "min_ratio": 0.5},
    "pruning": {"expert": {"method": "magnitude"}},
    "extractor": {"kind": "inception", "weights": "inception.pt", "features": 2048},
    "sampling": {"steps": 2, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
    "evaluation": {"samples": 12, "seeds": [0], "kid_subset": 6, "allow_singular": False},
}  # fmt: skip
REMOVALS = [("down_blocks.0.resnets.0.conv1", [0, 1, 2, 3])]


def write_settings(**changes: Any) -> None:
    """Write params.yaml, with other values at the keys `section__key`, or other sections."""
    sections = {name: dict(value) if isinstance(value, dict) else value for name, value in SETTINGS.items()}
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            sections[section][key] = value
        else:
            sections[section] = value
    write_params(**sections)


def write_inputs(data: Path, net: UNet2DModel, record: ModelRecord) -> None:
    """Write it all into the working directory; `net` is pruned on the way."""
    write_settings()
    shutil.copytree(data, "artifacts/data")
    losses = np.random.default_rng(0).gamma(2.0, size=(T, 4)).astype(np.float32)
    write_npz(Path("artifacts/profiles/base.npz"), train=losses, holdout=losses)
    write_npz(Path("artifacts/profiles/floor.npz"), train=losses / 2)
    write_json(Path("artifacts/slots.json"), SLOTS)
    write_json(Path("artifacts/groups.json"), GROUPS)
    write_json(Path("artifacts/samplers/longer.json"), SAMPLER)
    write_extractor(Path("artifacts/extractor"))
    save_model(Path("artifacts/models/base"), net, record.changed(name="base"))
    for number, (first, last) in enumerate([(0, 9), (10, 49)]):
        name = f"experts_unpruned/group_{number}"
        one = record.changed(name=name, first=first, last=last, group=number, groups=2, parent="base")
        save_model(Path(f"artifacts/models/{name}"), net, one)
    take_away(net, REMOVALS)
    pruned = record.changed(name="pruned/expert/group_0", first=0, last=9, group=0, groups=2, parent="base")
    save_model(Path("artifacts/pruned/expert/group_0"), net, pruned, REMOVALS)


def write_extractor(folder: Path) -> None:
    """A classifier of four features."""
    folder.mkdir(parents=True)
    save_classifier(folder / CLASSIFIER, Classifier(1, 8, 4, 2))
    sha256 = content_hash(folder / CLASSIFIER)
    write_json(folder / FACTS, {"kind": "classifier", "features": 4, "weights": CLASSIFIER, "weights_sha256": sha256})
