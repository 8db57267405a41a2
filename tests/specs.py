"""Specs and records of the tiny models that tests make."""

from typing import Any

from unequal.models.folder import ModelRecord
from unequal.models.spec import ModelSpec, Space
from unequal.settings.condition import ClassLabels, DroppedLabels, LowResolution, Unconditional
from unequal.settings.schedule import BetaSchedule, FlowSchedule, Schedule

TIMESTEPS = 50
NOTHING = Unconditional()


def class_labels(classes: int) -> ClassLabels:
    return ClassLabels(classes=classes)


def dropped_labels(classes: int, dropout: float = 0.1) -> DroppedLabels:
    return DroppedLabels(classes=classes, dropout=dropout)


def low_resolution(factor: int) -> LowResolution:
    return LowResolution(super_resolution_factor=factor)


def schedule_of(name: str, timesteps: int, shift: float) -> Schedule:
    if name == "flow":
        return FlowSchedule(name="flow", timesteps=timesteps, shift=shift)
    return BetaSchedule(name=name, timesteps=timesteps)


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
        schedule=schedule_of(facts.pop("schedule"), facts.pop("timesteps"), facts.pop("shift", 1.0)),
        space=Space(**{name: facts.pop(name) for name in ("channels", "size", "autoencoder")}),
        **facts,
    )


def record_of(first: int = 0, last: int = TIMESTEPS - 1, spec: ModelSpec | None = None) -> ModelRecord:
    """Of a network that is no backbone's, meant for some of the timesteps; the later they begin, the more it costs."""
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
