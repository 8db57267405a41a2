"""Each training of the tests stands for a process of its own; jobs that are carried out in a temporary workspace."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from here import Here
from small_trainer import CPU, OBJECTIVE, OPTIMIZER, SCHEDULE
from specs import recipe_of, spec_of

from unequal.data.prepared import PreparedData, tensor_of
from unequal.models.denoiser import Denoiser
from unequal.settings.recipe import Recipe
from unequal.settings.training import Runtime, Training
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import BatchSource
from unequal.training.initialisation import Scope, Start
from unequal.training.loop import Trainer
from unequal.training.objectives import Objective
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def here(tmp_path: Path, runtime: Runtime) -> Here:
    return Here(tmp_path, runtime)


@pytest.fixture
def job_of(prepared: PreparedData, training_settings: Callable) -> Callable[..., TrainingJob]:
    """The job of a recipe; further words are of the training's settings."""

    def make(
        chosen: Recipe | None = None,
        name: str = "base",
        data: PreparedData = prepared,
        objective: Any = None,
        heads: Any = None,
        **changes: Any,
    ) -> TrainingJob:
        return TrainingJob(name, chosen or recipe_of(), training_settings(**changes), data, 5, objective, heads)

    return make


@pytest.fixture
def carried_out(tmp_path: Path, runtime: Runtime, job_of: Callable, tiny_net: Callable) -> Callable[..., Here]:
    """The workspace, a folder of the model's name, after a training from a start; None: from fresh weights."""

    def run(name: str, chosen: Recipe, start: Start | None = None, **changes: Any) -> Here:
        there = Here(tmp_path / name, runtime)
        start = start or Start(tiny_net(), spec_of(), Scope.whole(spec_of()))
        write_results(there, train(there, job_of(chosen, name, **changes), start, TimestepSampler(uniform(50))))
        return there

    return run


@pytest.fixture
def build(tmp_path, prepared, tiny_net, training_settings, runtime) -> Callable[..., Trainer]:
    """A trainer of a small network; further words are of the trainer or of the training's settings."""

    def make(
        work: str = "work",
        objective: Objective = OBJECTIVE,
        runtime_changes: dict[str, Any] | None = None,
        dropout: float = 0.0,
        sampler: TimestepSampler | None = None,
        heads: int = 1,
        device: torch.device = CPU,
        **changes: Any,
    ) -> Trainer:
        own = {name: changes.pop(name) for name in list(changes) if name not in Training.model_fields}
        settings, sampler = training_settings(**changes), sampler or TimestepSampler(uniform(50))
        images, flips = tensor_of(prepared.train), settings.horizontal_flips
        source = BatchSource(images, settings.batch_size, sampler, 0, flips, device, prefetch=device != CPU)
        chosen = runtime.model_copy(update=runtime_changes or {})
        net = tiny_net(heads=heads, dropout=dropout, block_out_channels=(8,), middle_attention=False)
        rest = {"optimizer": OPTIMIZER, "images": 40, "log": lambda *_: None, "training": settings, "runtime": chosen}
        denoiser = Denoiser(net, SCHEDULE, "epsilon" if heads == 1 else "mixed", device=device)
        return Trainer(denoiser, source, objective, work=tmp_path / work, **(rest | own))

    return make
