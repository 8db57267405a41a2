"""Specs, records and recipes of the tiny models that tests make."""

from typing import Any

from unequal.models.folder import ModelRecord
from unequal.models.spec import ModelSpec, Space
from unequal.settings.condition import ClassLabels, DroppedLabels, LabelledLowResolution, LowResolution, Unconditional
from unequal.settings.data import TrainedAutoencoder
from unequal.settings.loss_weights import NoWeight
from unequal.settings.recipe import Optimizer, Recipe
from unequal.settings.samplers import Uniform
from unequal.settings.schedule import BetaSchedule, FlowSchedule, Schedule

TIMESTEPS = 50
NOTHING = Unconditional()


def class_labels(classes: int) -> ClassLabels:
    return ClassLabels(classes=classes)


def dropped_labels(classes: int, dropout: float = 0.1) -> DroppedLabels:
    return DroppedLabels(classes=classes, dropout=dropout)


def low_resolution(factor: int, residual: bool = False) -> LowResolution:
    return LowResolution(super_resolution_factor=factor, residual=residual)


def labelled_low_resolution(factor: int, classes: int, residual: bool = False) -> LabelledLowResolution:
    return LabelledLowResolution(super_resolution_factor=factor, classes=classes, residual=residual)


def schedule_of(name: str, timesteps: int, shift: float) -> Schedule:
    if name == "flow":
        return FlowSchedule(name="flow", timesteps=timesteps, shift=shift)
    return BetaSchedule(name=name, timesteps=timesteps)


def spec_of(prediction: str = "epsilon", **changes: Any) -> ModelSpec:
    """Build the spec of a model of grey 8×8 images at 50 timesteps, any part of it changed."""
    facts = {
        "schedule": "linear",
        "timesteps": TIMESTEPS,
        "channels": 1,
        "size": 8,
        "autoencoder": None,
        "condition": NOTHING,
        "variance": "fixed",
    } | changes
    return ModelSpec(
        prediction=prediction,
        schedule=schedule_of(facts.pop("schedule"), facts.pop("timesteps"), facts.pop("shift", 1.0)),
        space=Space(**{name: facts.pop(name) for name in ("channels", "size", "autoencoder")}),
        **facts,
    )


def record_of(first: int = 0, last: int = TIMESTEPS - 1, spec: ModelSpec | None = None) -> ModelRecord:
    """Build the record of a network without a backbone, meant for some of the timesteps: later ones cost more."""
    return ModelRecord(
        name="a",
        spec=spec or spec_of(),
        backbone="none",
        seed=0,
        steps=0,
        images_seen=0,
        training_flops=0,
        macs=100 + first,
        macs_with_attention=200,
        parameters=10,
        first=first,
        last=last,
    )


def recipe_of(prediction: str = "epsilon", images: int = 16, **changes: Any) -> Recipe:
    """Build a recipe of uniform timesteps, no weight of the loss and a constant learning rate, any of them changed."""
    optimizer = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"}
    facts = {"sampler": Uniform(density="uniform"), "loss_weight": NoWeight(kind="none")} | changes
    facts["optimizer"] = Optimizer(**(optimizer | changes.get("optimizer", {})))
    return Recipe(images=images, prediction=prediction, **facts)


def autoencoder_of(**changes: Any) -> TrainedAutoencoder:
    """Settings of a tiny autoencoder that is trained here."""
    shape = {"latent_channels": 2, "block_out_channels": (8, 8), "layers_per_block": 1, "norm_num_groups": 4}
    training = {"kl_weight": 1e-4, "images": 16, "batch_size": 16, "precision": "auto", "lr": 5e-3}
    return TrainedAutoencoder(**({"kind": "trained"} | shape | training | changes))
