"""Pictures during a training: the samples of its averaged weights, and nothing of the training changes with them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from here import Here
from specs import autoencoder_of, class_labels, low_resolution, recipe_of, spec_of

from unequal.data.grids import read_png, tiled
from unequal.data.latents import makers_of, write_latents
from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.spacing import spaced_timesteps
from unequal.models.autoencoder import build_autoencoder, identity, load_autoencoder
from unequal.models.denoiser import Denoiser
from unequal.models.folder import Heads, load_model
from unequal.models.spec import ModelSpec
from unequal.runtime.chunks import UNSTORED
from unequal.runtime.files import content_hash
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.recipe import Mixing
from unequal.timesteps.partition import Interleaved, TimestepRange
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.initialisation import Scope, Start
from unequal.training.mixed_prediction import mixed_objective
from unequal.training.pictures import COUNT, STEPS
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train

MIXING = Mixing(train="best_common", select="profile")
SPECS: dict[str, dict[str, Any]] = {
    "noise": {},
    "a flow": {"prediction": "velocity", "schedule": "flow"},
    "classes": {"condition": class_labels(2)},
    "super-resolution": {"condition": low_resolution(2)},
    "three heads of a flow": {"prediction": "mixed", "schedule": "flow"},
    "every other timestep": {},
}


@pytest.fixture
def trained(tmp_path, runtime, prepared, tiny_net, training_settings):
    """Train a tiny network with and without pictures, into a folder of a name."""

    def run(name: str, spec: ModelSpec, scope: Any = None, data: PreparedData = prepared, **changes: Any) -> Here:
        here = Here(tmp_path / name, runtime)
        mixed = spec.prediction == "mixed"
        recipe = recipe_of(spec.prediction, 24, mixing=MIXING if mixed else None)
        objective = mixed_objective(recipe, MIXING, spec.noise_schedule()) if mixed else None
        products = torch.eye(3).repeat(spec.timesteps, 1, 1)
        heads = (lambda _: Heads.selected("profile", products)) if mixed else None
        job = TrainingJob(name, recipe, training_settings(**changes), data, 5, objective, heads, pictures=True)
        net = tiny_net(len(spec.heads), spec.space.channels, condition=spec.condition, dropout=0.2)
        start = Start(net, spec, Scope(scope) if scope else Scope.whole(spec))
        write_results(here, train(here, job, start, TimestepSampler(uniform(spec.timesteps))))
        return here

    return run


def grids(here: Here, name: str) -> list[Path]:
    return sorted((here.root / f"artifacts/progress/{name}").iterdir())


def last(here: Here) -> np.ndarray:
    return here.pictures[max(here.pictures)]


def sampled(ensemble: Ensemble, **options: Any) -> np.ndarray:
    timesteps = spaced_timesteps(STEPS, ensemble.schedule, "edm")
    return tiled(ensemble.sample(COUNT, timesteps, seed=0, solver="dpm_solver_2m", **options).numpy())


#: They differ in the way from the network to the pictures; the others add little to them.
OFTEN = {"noise", "super-resolution", "three heads of a flow"}


@pytest.mark.parametrize(
    "kind", [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.thorough) for kind in SPECS]
)
def test_pictures_change_no_weights_and_the_last_shows_the_finished_models_samples(kind, trained, prepared):
    spec, scope = spec_of(**SPECS[kind]), Interleaved(1, 49, 2) if kind == "every other timestep" else None
    with_them, without = trained("model", spec, scope, pictures=3), trained("other", spec, scope, pictures=None)
    files = [here.root / f"artifacts/models/{name}" for here, name in ((with_them, "model"), (without, "other"))]
    weights = "diffusion_pytorch_model.safetensors"
    assert content_hash(files[0] / weights) == content_hash(files[1] / weights)
    assert [file.name for file in grids(with_them, "model")] == [f"{images:012d}.png" for images in (8, 16, 24)]
    assert grids(without, "other") == []
    for file, grid in zip(grids(with_them, "model"), with_them.pictures.values(), strict=True):
        assert np.array_equal(read_png(file), grid)
        assert grid.shape == (1, 32, 32)
        assert grid.std() > 1
    if scope is None and spec.prediction != "mixed":
        assert np.array_equal(last(with_them), sampled(Ensemble.load(files[0]), originals=tensor_of(prepared.holdout)))


def test_outside_its_timesteps_an_expert_leaves_the_answer_to_the_model_before(trained, tiny_net, make_record):
    here = trained("model", spec_of(), TimestepRange(0, 9), pictures=1)
    net, record = load_model(here.root / "artifacts/models/model")
    before = tiny_net(dropout=0.2)
    rest = Expert(Denoiser.of(before, spec_of()), make_record(before).changed(first=10, last=49))
    assert np.array_equal(last(here), sampled(Ensemble([Expert(Denoiser.of(net, spec_of()), record), rest])))


def test_pictures_of_latents_are_decoded(trained, prepared, tmp_path):
    folder = tmp_path / "model/artifacts/autoencoder"
    build_autoencoder(autoencoder_of(), 8, 1, 0).save_pretrained(folder)
    autoencoder = load_autoencoder(folder, torch.device("cpu"), 4)
    parts = UNSTORED.each(makers_of(prepared.images, autoencoder, (2, 4, 4)))
    write_latents(prepared, parts, (2, 4, 4), identity(folder), tmp_path / "latents")
    spec = spec_of(channels=2, size=4, autoencoder=identity(folder))
    here = trained("model", spec, None, PreparedData.open(tmp_path / "latents"), pictures=1)
    expected = sampled(Ensemble.load(here.root / "artifacts/models/model"), decode=autoencoder.decode, clip=False)
    assert expected.shape == (1, 32, 32)
    assert np.array_equal(last(here), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("killed_at", [2, 3])
def test_a_resumed_training_has_all_pictures(killed_at, trained, monkeypatch):
    whole = trained("model", spec_of(), pictures=3, checkpoint_every=1)
    expected = {file.name: file.read_bytes() for file in grids(whole, "model")}
    shutil.rmtree(whole.root)

    def kill(self: Here, metrics: Any, step: int) -> None:
        if step == killed_at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Here, "log", kill)
        with pytest.raises(KeyboardInterrupt):
            trained("model", spec_of(), pictures=3, checkpoint_every=1, log_every=1)
    again = trained("model", spec_of(), pictures=3, checkpoint_every=1)
    assert {file.name: file.read_bytes() for file in grids(again, "model")} == expected
