"""A profile from end to end: models found, images encoded, losses measured, the file and the page written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unequal.errors import UserError
from unequal.files import read_json, settings_hash, write_bytes
from unequal.measures.loss_profile import relative_change
from unequal.profiler.document import Change, Losses, Split, Timesteps
from unequal.profiler.images import Kept, Pictures, conditions, encoded, pictures
from unequal.profiler.measuring import Points, spread
from unequal.profiler.model import Model, Place, find, load
from unequal.profiler.page import page
from unequal.profiler.schedule import trained_by
from unequal.workspace.chunks import Chunks

#: What a profile's folder holds: the file, the page, and what is kept of the way there.
DOCUMENT, PAGE, WORK = "timesteps.json", "profile.html", "work"
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Asked:
    """What a profile is made of.

    Attributes:
        model: a folder of diffusers, or owner/name@commit on the Hub.
        folders: of images, train and perhaps held out.
        out: folder of what comes out.
        device: where networks are asked.
        against: another model of the same family and schedule, by its name; None: one alone.
        images: that are used of a folder, at most.
        timesteps: that are measured, spread over all of them.
        draws: of an image and noise, at each timestep.
        batch_size: images at once.
        seed: of images and noise.
        precision: of their weights.
        progress: whether bars are shown, on a terminal.
    """

    model: str
    folders: Mapping[Split, Path]
    out: Path
    device: torch.device
    against: str | None = None
    images: int = 2048
    timesteps: int = 100
    draws: int = 16
    batch_size: int = 64
    seed: int = 0
    precision: str = "fp32"
    progress: bool = True

    def chunks(self, *of: object) -> Chunks:
        """Those of a computation that is settled by this and nothing else: others cannot be taken for it."""
        told = [self.images, self.seed, self.device.type, self.precision, *of]
        return Chunks(self.out / WORK / settings_hash([str(one) for one in told])[:16])


def profile(asked: Asked) -> Timesteps:
    """Measure, and write timesteps.json and a page. Raises UserError where something does not fit."""
    places = [find(name) for name in (asked.model, asked.against) if name is not None]
    for other in places[1:]:
        check_alike(places[0], other)
    losses = []
    for place in places:
        model = load(place, asked.device, PRECISIONS[asked.precision])
        seen = {split: pictures(path, model, asked.images, asked.seed) for split, path in asked.folders.items()}
        losses.append(measured(asked, place, model, seen))
    document = told(asked, places, model, seen, losses)
    asked.out.mkdir(parents=True, exist_ok=True)
    write_bytes(asked.out / PAGE, page(document).encode())
    document.write(asked.out / DOCUMENT)
    return document


def measured(asked: Asked, place: Place, model: Model, seen: Mapping[Split, Pictures]) -> dict[Split, np.ndarray]:
    """Losses of a model on all splits, [K, draws] each; what an earlier attempt has left is taken up."""
    schedule = model.trained.schedule.tables()
    steps, identity = spread(schedule, asked.timesteps), (files_of(place.folder), model.pixels)
    kept: dict[Split, tuple[Kept, Mapping[str, Kept]]] = {}
    for split, found in seen.items():
        own = ("images", identity, files_of(found.path))
        kept[split] = (
            encoded(found, model, asked.chunks("encoded", *own), asked.device, asked.progress),
            conditions(found, model, asked.chunks("told", *own), asked.progress),
        )
    model.settle()
    losses: dict[Split, np.ndarray] = {}
    for split, (images, told_of) in kept.items():
        points = Points(images, told_of, steps, asked.draws, asked.seed, schedule)
        settled = ("losses", identity, files_of(seen[split].path), steps, asked.draws, asked.batch_size)
        bar = f"{place.name}, {split}" if asked.progress else None
        losses[split] = points.losses(model, asked.batch_size, asked.device, asked.chunks(*settled), bar)
    return losses


def files_of(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file below a folder: other files are another computation."""
    found = sorted(one for one in folder.rglob("*") if one.is_file())
    return [(str(one.relative_to(folder)), (stat := one.stat()).st_size, stat.st_mtime_ns) for one in found]


def check_alike(first: Place, second: Place) -> None:
    """Raise UserError where two models cannot be met with the same draws; said before either is loaded."""
    configs = [read_json(one.network / "config.json") for one in (first, second)]
    facts = {"network": (first.family, second.family)}
    facts |= {name: tuple(one.get(name) for one in configs) for name in ("in_channels", "sample_size")}
    for what, (one, other) in facts.items():
        if one != other:
            raise UserError(f"{second.name}: {what} {other}, where {first.name} has {one}; allowed: the same")
    if trained_by(first.folder) != trained_by(second.folder):
        raise UserError(f"{second.name}: trained by another schedule than {first.name}; allowed: the same")


def told(
    asked: Asked,
    places: list[Place],
    model: Model,
    seen: Mapping[Split, Pictures],
    losses: list[dict[Split, np.ndarray]],
) -> Timesteps:
    """What was measured, as a document."""
    steps = spread(model.trained.schedule.tables(), asked.timesteps)
    return Timesteps(
        model=places[0].name,
        family=model.family,
        prediction=model.trained.prediction,
        schedule=model.trained.schedule,
        seed=asked.seed,
        images={split: len(found) for split, found in seen.items()},
        shape=model.shape,
        draws=asked.draws,
        timesteps=steps,
        losses={split: Losses.of(found) for split, found in losses[0].items()},
        compared=None if len(losses) == 1 else change(places[1].name, losses[0], losses[1]),
    )


def change(name: str, first: Mapping[Split, np.ndarray], second: Mapping[Split, np.ndarray]) -> Change:
    """What another model loses, and by how much that differs at each timestep."""
    found = {
        split: [relative_change(one[None], other[None]) for one, other in zip(first[split], second[split], strict=True)]
        for split in first
    }
    return Change(
        model=name,
        losses={split: Losses.of(losses) for split, losses in second.items()},
        relative={split: tuple(ratio for ratio, _ in pairs) for split, pairs in found.items()},
        relative_stderr={split: tuple(error for _, error in pairs) for split, pairs in found.items()},
    )
