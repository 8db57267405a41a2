"""The graph of latents in small: images, autoencoder, latents, a model of them, its profile, and scores."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from small_inputs import PROXY
from specs import autoencoder_of, recipe_of
from stage_project import write_params

from stages import (
    build_extractor,
    build_sampler,
    compute_slots,
    evaluate_reference,
    finetune_groups,
    group_timesteps,
    prepare_data,
    profile_floor,
    profile_loss,
    prune,
    train_base,
    train_recipe,
)
from studies.latent.stages import (
    encode_latents,
    evaluate_autoencoder,
    evaluate_latents,
    train_autoencoder,
)
from unequal.data.prepared import PreparedData
from unequal.models.autoencoder import identity
from unequal.models.folder import load_record
from unequal.runtime.files import read_json, read_npz
from unequal.settings.network import UNet2D
from unequal.settings.training import Training

pytestmark = pytest.mark.slow

T = 24
AUTOENCODER: dict[str, Any] = autoencoder_of(images=64).model_dump(mode="json")
FETCHED: dict[str, Any] = {
    "kind": "pretrained",
    "source": "mine",
    "latent_channels": 2,
    "factor": 2,
    "batch_size": 4,
    "precision": "auto",
}
RECIPE: dict[str, Any] = recipe_of(images=8).model_dump(mode="json")
PRUNING: dict[str, Any] = PROXY | {
    "start": [{"method": "magnitude"}],
    "finetuning": {"images": 8, "batch_size": 4, "lr": 0.001},
}
VARIANTS = ["base", "longer", "experts_unpruned", "experts_pruned"]
EXTRACTOR: dict[str, Any] = {"kind": "classifier", "weights": None, "features": 4}
EXTRACTOR |= {"images": 1280, "batch_size": 32, "lr": 1e-2}
SAMPLING: dict[str, Any] = {"steps": 2, "spacing": "uniform", "eta": 0.0, "clip": False, "batch_size": 8}


@pytest.fixture
def sections(
    project: Path,
    prepared: PreparedData,
    training_settings: Callable[..., Training],
    network_settings: Callable[..., UNet2D],
) -> dict[str, Any]:
    source = str(prepared.path.with_name("a.npz"))
    return {
        "seed": 0,
        "data": {"source": "array", "path": source, "image_size": 8, "channels": 1, "fit": "exact", "holdout": 0.25},
        "autoencoder": AUTOENCODER,
        "schedule": {"name": "scaled_linear", "timesteps": T},
        "network": network_settings().model_dump(mode="json"),
        "training": training_settings().model_dump(mode="json"),
        "recipes": {"base": RECIPE, "longer": RECIPE, "expert": RECIPE | {"sampler": {"density": "slot"}}},
        "finetune_recipes": ["longer"],
        "slots": {"count": 3, "loss": "total"},
        "groups": {"ids": [0, 1], "kind": "snr", "min_ratio": 0.5},
        "pruning": {"expert": PRUNING},
        "profile": {"images": 2, "batch_size": 20, "floor": "all"},
        "profiled_models": ["base"],
        "extractor": EXTRACTOR,
        "sampling": SAMPLING,
        "evaluation": {"samples": 8, "seeds": [0], "kid_subset": 4, "allow_singular": False},
        "scored_models": VARIANTS,
    }


def run(program: Any, *options: str, status: int = 0) -> str:
    result = CliRunner().invoke(program.main, list(options))
    assert result.exit_code == status, result.output
    return result.output


def prepare_images(sections: dict[str, Any]) -> None:
    write_params(**sections)
    run(prepare_data, "--data", "images")


@pytest.mark.thorough
def test_every_stage_works_in_latents_and_is_scored_in_pixels(sections: dict[str, Any]) -> None:
    prepare_images(sections)
    run(train_autoencoder)
    run(encode_latents)
    images, latents = PreparedData.open("artifacts/images"), PreparedData.open("artifacts/data")
    assert latents.images.shape == (48, 2, 4, 4)
    assert latents.images.dtype == np.float32
    run(train_base)
    record = load_record(Path("artifacts/models/base"))
    assert (record.spec.space.size, record.spec.space.channels) == (4, 2)
    assert record.spec.space.autoencoder == latents.facts["autoencoder"] == identity(Path("artifacts/autoencoder"))
    run(profile_floor)
    run(profile_loss, "--model", "base")
    losses, floor = (read_npz(Path(f"artifacts/profiles/{name}.npz"), ["train"])["train"] for name in ("base", "floor"))
    assert losses.shape == floor.shape == (T, 2)
    run(build_extractor, "--data", "images")
    run(evaluate_reference, "--data", "images")
    run(evaluate_autoencoder)
    train_experts()
    for variant in VARIANTS:
        run(evaluate_latents, "--model", variant)
        samples = np.load(f"artifacts/samples/{variant}.npy", allow_pickle=False)
        assert (samples.shape, samples.dtype) == ((8, *images.images.shape[1:]), np.uint8)
        assert read_json(Path(f"results/fid/{variant}.json"))["autoencoder"] == record.spec.space.autoencoder
    costs = {one: read_json(Path(f"results/fid/{one}.json"))["sampling_flops_per_image"] for one in VARIANTS}
    assert costs["experts_pruned"] < costs["base"] == costs["longer"] == costs["experts_unpruned"]
    refuse_other_latents(sections)


def refuse_other_latents(sections: dict[str, Any]) -> None:
    """Latents are neither clipped nor decoded by another autoencoder."""
    write_params(**sections | {"sampling": SAMPLING | {"clip": True}})
    refused = run(evaluate_latents, "--model", "base", status=1)
    assert "sampling.clip: true bounds pixels, and latents have no bounds" in refused
    write_params(**sections | {"autoencoder": AUTOENCODER | {"lr": 0.004}})
    run(train_autoencoder)
    assert "not the autoencoder in whose latents 'base' works" in run(evaluate_latents, "--model", "base", status=1)


def train_experts() -> None:
    run(compute_slots)
    run(build_sampler, "--recipe", "longer")
    run(train_recipe, "--recipe", "longer")
    run(group_timesteps)
    for group in ("0", "1"):
        run(prune, "--method", "expert", "--group", group)
        for architecture in ("unpruned", "pruned"):
            run(finetune_groups, "--architecture", architecture, "--group", group)


@pytest.mark.parametrize(
    ("autoencoder", "complaint"),
    [
        (
            FETCHED | {"source": "nowhere/at/all"},
            "train_autoencoder: params.yaml: autoencoder.source: nowhere/at/all: missing; allowed: a file or folder",
        ),
        (
            AUTOENCODER | {"block_out_channels": [8, 8, 8, 8]},
            "train_autoencoder: autoencoder: the network makes one latent pixel of 8 × 8; data.image_size 8 is no",
        ),
    ],
    ids=["missing", "too_deep"],
)
def test_an_autoencoder_that_does_not_fit_is_refused_in_one_line(
    sections: dict[str, Any], autoencoder: dict[str, Any], complaint: str
) -> None:
    prepare_images(sections | {"autoencoder": autoencoder})
    output = run(train_autoencoder, status=1)
    assert output.startswith(complaint) and output.count("\n") == 1


def test_a_pretrained_autoencoder_takes_the_place_of_one_to_be_trained(sections: dict[str, Any]) -> None:
    prepare_images(sections)
    run(train_autoencoder)
    Path("artifacts/autoencoder").rename("mine")
    shutil.rmtree("artifacts/sources")  # an engine that begins writes what lies outside now
    write_params(**sections | {"autoencoder": FETCHED | {"factor": 4}})
    assert run(train_autoencoder, status=1) == (
        "train_autoencoder: autoencoder: 'mine' has latent_channels: 2 and factor: 2; the settings say 2 and 4\n"
    )
    write_params(**sections | {"autoencoder": FETCHED})
    run(train_autoencoder)
    run(encode_latents)
    assert PreparedData.open("artifacts/data").images.shape == (48, 2, 4, 4)
    weights = "diffusion_pytorch_model.safetensors"
    assert Path("artifacts/autoencoder", weights).read_bytes() == Path("mine", weights).read_bytes()
