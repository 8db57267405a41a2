"""Specs and records of the tiny models that tests make."""

from typing import Any

from unequal.models.spec import ModelSpec, Space
from unequal.settings.condition import ClassLabels, LowResolution, Unconditional
from unequal.settings.schedule import Schedule

TIMESTEPS = 50
NOTHING = Unconditional()


def class_labels(classes: int) -> ClassLabels:
    return ClassLabels(classes=classes)


def low_resolution(factor: int) -> LowResolution:
    return LowResolution(super_resolution_factor=factor)


def spec_of(prediction: str = "epsilon", **changes: Any) -> ModelSpec:
    """Of a model of grey 8×8 images at 50 timesteps, with anything of it changed, whatever part of a spec it is."""
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
        schedule=Schedule(name=facts.pop("schedule"), timesteps=facts.pop("timesteps")),
        space=Space(**{name: facts.pop(name) for name in ("channels", "size", "autoencoder")}),
        **facts,
    )
