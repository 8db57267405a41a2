"""Bad models of every kind, as stages meet them: our own folders, and trained networks from elsewhere."""

import json
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from pickles import Trap
from refusals import Bad, Stage, check_refused, cut, table
from safetensors.torch import load_file, save, save_file
from small_inputs import T, write_settings

from stages import evaluate_fid, finetune_groups, profile_loss, prune, train_base
from unequal.data.preparation import prepare
from unequal.models.folder import CONFIG, HEADS, PRUNING, RECORD, WEIGHTS
from unequal.runtime.files import content_hash, read_json, write_json
from unequal.settings.data import Data

BASE = Path("artifacts/models/base")
EXPERT = Path("artifacts/models/experts_unpruned/group_0")
PRUNED = Path("artifacts/pruned/expert/group_0")
TAKEN = Path("taken")
OUTPUTS = ("artifacts/profiles/base.npz", "results/profiles/base.csv", "results/metrics/profile_base.json")
TRAINED = ("artifacts/models/base", "results/metrics/train_base.json", "results/training/base.csv")

pytestmark = pytest.mark.usefixtures("small_inputs")


def written(path: Path, content: bytes | str) -> Callable[[], object]:
    return partial(path.write_bytes, content.encode() if isinstance(content, str) else content)


def facts(folder: Path, **changes: Any) -> Callable[[], None]:
    def spoil() -> None:
        found = read_json(folder / RECORD) | changes
        (folder / RECORD).write_text(json.dumps({name: value for name, value in found.items() if value != "gone"}))

    return spoil


def vouched(folder: Path, name: str, content: bytes | str) -> Callable[[], None]:
    def spoil() -> None:
        written(folder / name, content)()
        found = read_json(folder / RECORD)
        found["sha256"][name] = content_hash(folder / name)
        write_json(folder / RECORD, found)

    return spoil


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[], None]:
    return lambda: vouched(BASE, WEIGHTS, save(change(load_file(BASE / WEIGHTS))))()


def config(**changes: Any) -> Callable[[], None]:
    return lambda: vouched(BASE, CONFIG, json.dumps(read_json(BASE / CONFIG) | changes))()


FOREIGN = "model.json: not a record of this version; make the model again"
ALTERED = "altered or cut short since it was saved; make the model again"

OWN: dict[str, Bad] = {
    "no folder": Bad(lambda: shutil.rmtree(BASE), f"{BASE}: missing; an earlier stage makes it"),
    "no record": Bad((BASE / RECORD).unlink, f"{BASE}/model.json: missing"),
    "no weights": Bad((BASE / WEIGHTS).unlink, f"{WEIGHTS}: missing"),
    "a record cut short": Bad(cut(BASE / RECORD, 40), "model.json: not valid JSON"),
    "a deep record": Bad(written(BASE / RECORD, "[" * 100_000), "model.json: not valid JSON"),
    "a later record": Bad(facts(BASE, version=2), FOREIGN),
    "a record with NaN": Bad(facts(BASE, macs=float("nan")), FOREIGN),
    "a record of an unknown network": Bad(facts(BASE, backbone="vit"), "'vit' is unknown; allowed: unet2d, dit"),
    "a record of timesteps that are none": Bad(facts(BASE, first=10, last=T), FOREIGN),
    "a record that vouches for nothing": Bad(facts(BASE, sha256={}), "model.json: has no hash of config.json or of"),
    "weights cut short": Bad(cut(BASE / WEIGHTS, 5000), f"{WEIGHTS}: {ALTERED}"),
    "a folder for weights": Bad(lambda: ((BASE / WEIGHTS).unlink(), (BASE / WEIGHTS).mkdir()), f"{WEIGHTS}: {ALTERED}"),
    "a pickle vouched for": Bad(vouched(BASE, WEIGHTS, pickle.dumps(Trap())), f"{WEIGHTS}: does not fit"),
    "a weight too few": Bad(weights(lambda w: dict(list(w.items())[1:])), f"{WEIGHTS}: does not fit"),
    "weights that are no numbers": Bad(
        weights(lambda w: w | {"conv_out.bias": torch.full((1,), torch.nan)}), "the loss profile holds nan at t = 0"
    ),
    "a config with words for numbers": Bad(config(layers_per_block="x"), f"{CONFIG}: describes no network of kind"),
    "a config of other layers": Bad(config(layers_per_block=2), f"{WEIGHTS}: does not fit {BASE}/{CONFIG}"),
    "heads of a model with one": Bad(
        lambda: save_file({"weights": torch.ones(T, 3) / 3, "products": torch.ones(T, 3, 3)}, BASE / HEADS),
        "head weights of shape [50, 3] for prediction 'epsilon'",
    ),
    "heads of other names": Bad(lambda: save_file({"x": torch.ones(1)}, BASE / HEADS), f"{HEADS}: cut short or alter"),
}


@table(OWN)
def test_a_bad_model_is_refused_by_who_measures_it(bad):
    bad.spoil()
    check_refused(profile_loss, "--model", "base", said=bad.said, outputs=OUTPUTS)
    assert not Path("unpickled").exists()


REMOVED = f"{PRUNED}/{PRUNING}: no record of pruning; make the model again"

PRUNINGS: dict[str, Bad] = {
    "cut short": Bad(cut(PRUNED / PRUNING, 9), f"{PRUNING}: {ALTERED}"),
    "no JSON": Bad(vouched(PRUNED, PRUNING, "["), f"{PRUNING}: not valid JSON"),
    "channels below zero": Bad(vouched(PRUNED, PRUNING, '[["conv_in", [-1]]]'), REMOVED),
    "channels that are not there": Bad(
        vouched(PRUNED, PRUNING, '[["conv_in", [99]]]'), "pruning record: 'conv_in' has no channel 99; it belongs to"
    ),
    "a layer that is not there": Bad(vouched(PRUNED, PRUNING, '[["conv_99", [0]]]'), "pruning record: 'conv_99' is no"),
    "other channels": Bad(
        vouched(PRUNED, PRUNING, '[["mid_block.attentions.0.to_q", [0, 1, 2, 3]]]'), f"{WEIGHTS}: does not fit"
    ),
}


@table(PRUNINGS)
def test_a_bad_record_of_pruning_is_refused(bad):
    bad.spoil()
    options = ("--architecture", "pruned", "--group", "0")
    check_refused(finetune_groups, *options, said=bad.said, outputs=["artifacts/models/experts_pruned/group_0"])


READERS: dict[str, tuple[Stage, tuple[str, ...]]] = {
    "measured": (profile_loss, ("--model", "base")),
    "scored": (evaluate_fid, ("--model", "base")),
    "pruned": (prune, ("--method", "expert", "--group", "0")),
    "trained on": (finetune_groups, ("--architecture", "unpruned", "--group", "0")),
}


@pytest.mark.parametrize(("reader", "shape"), zip(READERS, [(3, 8, 8), (1, 16, 16)] * 2, strict=True), ids=str)
def test_a_model_meets_no_other_images(reader, shape):
    np.save("images.npy", np.random.default_rng(0).integers(0, 256, (24, *shape), np.uint8))
    shutil.rmtree("artifacts/data")
    data = {"source": "array", "path": "images.npy", "channels": shape[0], "image_size": shape[1], "fit": "exact"}
    prepare(Data(**data, holdout=0.25), 0, Path("artifacts/data"))
    stage, options = READERS[reader]
    said = f"'base' works on images of shape [1, 8, 8], not {list(shape)} as in artifacts/data; make it again"
    check_refused(stage, *options, said=said)


def taken(change: Callable[[], object], **network: Any) -> Callable[[], None]:
    """A folder of diffusers that the settings name, changed."""

    def spoil() -> None:
        source = UNet2DModel.from_config(
            {key: value for key, value in read_json(BASE / CONFIG).items() if key != "attention_heads"}
        )
        shutil.rmtree(BASE)
        source.save_pretrained(TAKEN)
        write_settings(network__pretrained=str(TAKEN))
        change()

    return spoil


def taken_weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[], None]:
    return taken(lambda: save_file(change(load_file(TAKEN / WEIGHTS)), TAKEN / WEIGHTS))


def taken_config(**changes: Any) -> Callable[[], None]:
    return taken(lambda: write_json(TAKEN / CONFIG, read_json(TAKEN / CONFIG) | changes))


NONE = f"network.pretrained: '{TAKEN}' holds no UNet2DModel: "

ELSEWHERE: dict[str, Bad] = {
    "another class": Bad(
        taken_config(_class_name="UNet2DConditionModel"),
        f"network.pretrained: '{TAKEN}' is a UNet2DConditionModel; allowed: UNet2DModel",
    ),
    "a pickle for weights": Bad(taken(written(TAKEN / WEIGHTS, pickle.dumps(Trap()))), NONE),
    "a pickle beside": Bad(
        taken(lambda: ((TAKEN / WEIGHTS).unlink(), torch.save({}, TAKEN / "diffusion_pytorch_model.bin"))), NONE
    ),
    "a promise of exabytes": Bad(taken(written(TAKEN / WEIGHTS, (2**60).to_bytes(8, "little") + b"{}")), NONE),
    "a weight too few": Bad(
        taken_weights(lambda w: {name: weight for name, weight in w.items() if name != "conv_in.bias"}),
        f"network.pretrained: '{TAKEN}' lacks 1 weights of its network: 'conv_in.bias'",
    ),
}


@table(ELSEWHERE)
def test_a_bad_network_from_elsewhere_is_refused(bad):
    bad.spoil()
    check_refused(train_base, said=bad.said, outputs=TRAINED)
    assert not Path("unpickled").exists()
