"""Parts of a training step: their shares, timesteps in a loop of one's own, gradient surgery, checkpoints."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.other_loops import Passes
from benchmarks.timing import Clock, effort, in_turns, ratio, seconds
from benchmarks.training import advance, network, our_loop, random_images
from unequal.settings.loss_weights import LearnedClusterUncertainty
from unequal.settings.params import Params
from unequal.settings.recipe import Conflicts, Recipe
from unequal.timesteps.batches import Timesteps
from unequal.timesteps.learning import LossSecondMomentSampler
from unequal.training.batches import BatchSource
from unequal.training.loop import CHECKPOINT, Trainer

#: Part of a step → who does it, and by which method.
PARTS: dict[str, tuple[Callable[[Trainer], object], str]] = {
    "batch": (lambda trainer: BatchSource, "draw"),
    "average": (lambda trainer: trainer.averages, "update"),
    "optimizer": (lambda trainer: trainer.optimizer, "step"),
    "logging": (lambda trainer: trainer, "report"),
}


@contextmanager
def watched(owner: object, method: str, device: torch.device, clock: Clock = effort) -> Iterator[list[float]]:
    """The seconds of every call of a method, within the block."""
    taken: list[float] = []
    original = getattr(owner, method)

    def timed(*given: Any, **named: Any) -> Any:
        answer: list[Any] = []
        taken.append(clock(lambda: answer.append(original(*given, **named)), device))
        return answer[0]

    setattr(owner, method, timed)
    try:
        yield taken
    finally:
        setattr(owner, method, original)


def share(trainer: Trainer, part: str, steps: int, device: torch.device) -> float:
    """Share of a part in the time of some steps."""
    find, method = PARTS[part]
    with watched(find(trainer), method, device) as taken:
        whole = effort(lambda: advance(trainer, steps), device)
    return sum(taken) / whole


def shares(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """The share of every part, as the median over rounds."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = our_loop(params, device, Path(folder))
        advance(trainer, 2)
        found = {part: [share(trainer, part, steps, device) for _ in range(rounds)] for part in PARTS}
    return {
        "shares": {part: median(taken) for part, taken in found.items()},
        "rounds": found,
        "steps": steps,
        "log_every": params.training.log_every,
        "batch_size": params.training.batch_size,
    }


def draws(timesteps: int, batch_size: int, device: torch.device, steps: int) -> None:
    """So many draws, each of which is learned from."""
    sampler = LossSecondMomentSampler(timesteps, history=10, uniform_share=0.001, unbiased=True)
    drawing, losses = Timesteps(sampler), torch.rand(batch_size, device=device)
    for _ in range(steps):
        drawing.draw(batch_size, device)
        drawing.learn(losses)


def own_loop(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds of the draws and of the passes, and the one over the other."""
    batch_size = params.training.batch_size
    passes = Passes(network(params, device), random_images(params), params.training, device)
    work = {
        "timesteps": partial(draws, params.schedule.timesteps, batch_size, device, steps),
        "passes": partial(passes.run, steps),
    }
    times = in_turns(work, rounds, device)
    conditions = {"batch_size": batch_size, "steps": steps, "rounds": rounds}
    return {"share": ratio(times["timesteps"], times["passes"]), "seconds": times} | conditions


#: As ANT takes them (2306.00354).
CLUSTERS = 5


def recipes(params: Params) -> Mapping[str, Recipe]:
    """The base's recipe without gradient surgery, and with each."""
    updates: dict[str, dict[str, Any]] = {
        "none": {},
        "cluster uncertainty": {
            "loss_weight": LearnedClusterUncertainty(kind="cluster_uncertainty", clusters=CLUSTERS)
        },
        "PCGrad": {"conflicts": Conflicts(kind="pcgrad", clusters=CLUSTERS)},
        "Nash": {"conflicts": Conflicts(kind="nash", clusters=CLUSTERS)},
    }
    return {name: params.recipes["base"].model_copy(update=update) for name, update in updates.items()}


def gradient_surgery(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds of so many steps with each kind of gradient surgery, and over those without."""
    with tempfile.TemporaryDirectory() as folder:
        work = {
            name: partial(advance, our_loop(params, device, Path(folder) / name, recipe=recipe), steps)
            for name, recipe in recipes(params).items()
        }
        times = in_turns(work, rounds, device)
    over = {name: ratio(taken, times["none"]) for name, taken in times.items() if name != "none"}
    conditions = {"batch_size": params.training.batch_size, "clusters": CLUSTERS, "steps": steps, "rounds": rounds}
    return {"over_none": over, "seconds": times} | conditions


def checkpoints(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Return the median seconds of a step and of a checkpoint, and the share that `training.checkpoint_every` makes."""
    every = params.training.checkpoint_every
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        trainer = our_loop(params, device, Path(folder))
        advance(trainer, steps)
        trainer.save()
        trainer.writer.finish()
        turns = [
            [seconds(work, device) for work in (partial(advance, trainer, steps), trainer.save, trainer.writer.finish)]
            for _ in range(rounds)
        ]
        size = (Path(folder) / CHECKPOINT).stat().st_size
    advancing, save, write = map(median, zip(*turns, strict=True))
    step = advancing / steps
    return {
        "share": save / (every * step + save),
        "checkpoint_every": every,
        "checkpoint_seconds": save,
        "written_meanwhile_seconds": write,
        "checkpoint_bytes": size,
        "step_seconds": step,
        "batch_size": params.training.batch_size,
        "rounds": rounds,
    }
