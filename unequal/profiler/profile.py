"""A profile of one pipeline, or of two on the same draws: from folders to what was measured.

The order keeps memory bounded: autoencoder and text encoders are read, asked and let go one after the other, and what
they give lies on disk before the network is read. The second model comes when the first one has gone.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from unequal.errors import UserError
from unequal.files import content_hash, settings_hash
from unequal.measures.loss_profile import relative_change
from unequal.profiler.asking import Asking, Split, losses
from unequal.profiler.document import Change, Losses, Timesteps
from unequal.profiler.families.family import LATENT, Family
from unequal.profiler.families.registry import family_of
from unequal.profiler.kept import Kept, Rows
from unequal.profiler.pictures import Pictures, class_labels, refuse_shared
from unequal.profiler.pipelines import PipelineFolder, described
from unequal.profiler.strata import Strata, spread
from unequal.workspace import Chunks, computed_on

SplitName = Literal["train", "held_out"]
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: Changed when what is kept has another meaning.
FORMAT = 1
#: Timesteps that are measured where nothing is said, at most.
STRATA = 100
#: Below the output folder: what makes the same command go on, or end at once.
KEPT = "kept"


@dataclass(frozen=True)
class Wanted:
    """What is to be measured.

    Attributes:
        model: folder or Hub id.
        train, held_out: folders of images; None: nothing is held out.
        out: folder of the results.
        against: another model, folder or Hub id, on the same draws.
        lora: a file or folder of a LoRA, with which the model is measured again on the same draws.
        draws: n, at each timestep.
        timesteps: K, as `spread` lays them; None: all, or STRATA of more.
        batch_size: draws that the network is asked at once.
        seed: of images and noise.
        resolution: height and width of images in pixels; None: the model's.
        precision: of the networks; in PRECISIONS.
        guidance: what a network that was distilled for guidance is told of it.
    """

    model: str
    train: Path
    held_out: Path | None
    out: Path
    device: torch.device
    against: str | None = None
    lora: Path | None = None
    draws: int = 64
    timesteps: int | None = None
    batch_size: int = 16
    seed: int = 0
    resolution: int | None = None
    precision: str = "fp32"
    guidance: float = 1.0


class Measured(NamedTuple):
    """What was found: the document, and the losses of all draws by split, [K, n], of the model and of the other one."""

    document: Timesteps
    model: dict[SplitName, np.ndarray]
    other: dict[SplitName, np.ndarray] | None


@dataclass(frozen=True)
class Contender:
    """A model that is measured: a pipeline, with a LoRA or without."""

    name: str
    family: Family
    lora: Path | None = None

    def asking(self, wanted: Wanted) -> Asking:
        """Its network on the device."""
        net = self.family.network(wanted.device, PRECISIONS[wanted.precision])
        if self.lora is not None:
            self.family.adapt(net, self.lora)
        return Asking(self.family, net, wanted.device)

    @property
    def facts(self) -> dict[str, Any]:
        """What makes its losses its own."""
        lora = None if self.lora is None else content_hash(self.lora)
        return {"pipeline": self.family.pipeline.fingerprint(), "lora": lora}


def profile(wanted: Wanted) -> Measured:
    """Measure. Raises UserError for input of any wrong kind, before anything is computed where that can be known."""
    family = opened(wanted.model, wanted)
    model, other = Contender(family.pipeline.name, family), contender(wanted, family)
    pictures = pictures_of(wanted)
    texts = {name: one.captions() for name, one in pictures.items()} if family.told_texts else {}
    labels = labels_of(family, pictures)
    schedule = family.schedule.tables()
    total = schedule.timesteps
    if (wanted.timesteps or 2) > total:
        raise UserError(f"--timesteps {wanted.timesteps}: the schedule of {family.pipeline.name} has {total}")
    chosen = spread(schedule, wanted.timesteps or STRATA)
    strata = {name: Strata.of(len(one), chosen, total, wanted.draws, wanted.seed) for name, one in pictures.items()}

    facts = facts_of(wanted, model, pictures, chosen, {"texts": texts, "labels": labels})
    folder = wanted.out / KEPT / settings_hash(facts)[:16]
    latents = encoded_images(wanted, family, pictures, strata, folder)
    splits = {name: Split(strata[name], latents[name], labels=tensor(labels.get(name))) for name in pictures}

    def found(one: Contender, place: Path) -> dict[SplitName, np.ndarray]:
        # With a LoRA the same text encoders tell the same.
        told = encoded_texts(wanted, one.family, texts, strata, folder if one.family is family else place)
        return measured(one, wanted, {name: replace(splits[name], known=told.get(name)) for name in splits}, place)

    ours = found(model, folder)
    theirs = None if other is None else found(other, folder / f"other-{settings_hash(other.facts)[:16]}")
    change = None if other is None or theirs is None else change_of(other.name, ours, theirs)
    return Measured(document(wanted, family, pictures, chosen, ours, change), ours, theirs)


def opened(source: str, wanted: Wanted) -> Family:
    """A pipeline as one of its family."""
    family = family_of(PipelineFolder.find(source), wanted.resolution)
    family.guidance = wanted.guidance
    return family


def contender(wanted: Wanted, family: Family) -> Contender | None:
    """The model that is held against the first one. Raises UserError where no draw can be common to both."""
    if wanted.lora is not None:
        if not wanted.lora.exists():
            raise UserError(f"{wanted.lora}: no such file or folder; --lora takes a LoRA in safetensors")
        family.check_adapter(wanted.lora)
        return Contender(f"{family.pipeline.name} with {wanted.lora}", family, wanted.lora)
    if wanted.against is None:
        return None
    other = opened(wanted.against, wanted)
    for what, ours, theirs in (
        ("networks", family.title, other.title),
        ("images", family.shape, other.shape),
        ("classes", family.classes, other.classes),
        ("schedules", settings_hash(family.schedule.model_dump()), settings_hash(other.schedule.model_dump())),
        ("autoencoders", autoencoder_hash(family), autoencoder_hash(other)),
    ):
        if ours != theirs:
            raise UserError(
                f"--against {wanted.against}: its {what} differ from those of {wanted.model}; only models that answer "
                "the same draws are compared"
            )
    return Contender(other.pipeline.name, other)


def autoencoder_hash(family: Family) -> str | None:
    """Of the weights and the scale by which images become latents."""
    part, config = family.latents_of, family.autoencoder_config
    if part is None or config is None:
        return None
    weights = [content_hash(file) for file in sorted((family.pipeline.path / part).glob("*.safetensors"))]
    return settings_hash([weights, config["scaling_factor"], config.get("shift_factor")])


def pictures_of(wanted: Wanted) -> dict[SplitName, Pictures]:
    """Images of each split. Raises UserError."""
    found: dict[SplitName, Pictures] = {"train": Pictures.below(wanted.train)}
    if wanted.held_out is not None:
        found["held_out"] = Pictures.below(wanted.held_out)
        refuse_shared(found["train"], found["held_out"])
    return found


def labels_of(family: Family, pictures: dict[SplitName, Pictures]) -> dict[SplitName, list[int]]:
    """The class of each image by its subfolder, where the network is told classes; without subfolders the null class.

    Raises UserError where there is neither.
    """
    if family.classes is None:
        return {}
    known, found = pictures["train"].subfolders, {}
    for name, one in pictures.items():
        subfolders = one.subfolders
        if known is not None and subfolders is not None:
            found[name] = class_labels(subfolders, known, family.classes, one.folder)
        elif family.null_class is not None and known is None and subfolders is None:
            found[name] = [family.null_class] * len(one)
        else:
            raise UserError(
                f"{one.folder}: the {family.title} is told one of {family.classes} classes; needed: images in a "
                "subfolder for each class, one level deep, in all folders alike"
            )
    return found


def tensor(labels: list[int] | None) -> Tensor | None:
    """Labels as a tensor."""
    return None if labels is None else torch.tensor(labels)


def facts_of(
    wanted: Wanted,
    model: Contender,
    pictures: dict[SplitName, Pictures],
    chosen: np.ndarray,
    known: dict[str, Any],
) -> dict[str, Any]:
    """All that shapes what is kept: what was kept of other facts lies in another folder."""
    return {
        "format": FORMAT,
        "model": model.facts,
        "images": {name: [described(file, one.folder) for file in one.files] for name, one in pictures.items()},
        "known": known,
        "timesteps": chosen.tolist(),
        "asked": [wanted.draws, wanted.batch_size, wanted.seed, wanted.precision, wanted.guidance],
        "shape": model.family.shape,
        "computed": [computed_on(wanted.device), torch.get_num_threads(), versions()],
    }


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("torch", "diffusers", "transformers")}


def encoded_images(
    wanted: Wanted,
    family: Family,
    pictures: dict[SplitName, Pictures],
    strata: dict[SplitName, Strata],
    folder: Path,
) -> dict[SplitName, Kept]:
    """What the network sees of all images that are drawn, on disk."""
    kept = {name: Kept(folder / name / "images", strata[name].drawn) for name in pictures}
    if any(one.missing for one in kept.values()):
        with let_go():
            encode, channels = family.image_encoder(wanted.device), family.image_channels

            def rows(of: Pictures, numbers: Sequence[int]) -> Rows:
                return {LATENT: encode(of.pixels(numbers, channels, family.resolution)).float()}

            for name, one in kept.items():
                one.make(partial(rows, pictures[name]), f"{name} images")
            del encode
    return kept


def encoded_texts(
    wanted: Wanted,
    family: Family,
    texts: dict[SplitName, list[str]],
    strata: dict[SplitName, Strata],
    folder: Path,
) -> dict[SplitName, Kept]:
    """What the network is told of captions, on disk; nothing of networks that are told none."""
    kept = {name: Kept(folder / name / "texts", strata[name].drawn) for name in texts}
    if any(one.missing for one in kept.values()):
        with let_go():
            encode = family.text_encoder(wanted.device, PRECISIONS[wanted.precision])

            def rows(of: list[str], numbers: Sequence[int]) -> Rows:
                return encode([of[number] for number in numbers])

            for name, one in kept.items():
                one.make(partial(rows, texts[name]), f"{name} captions")
            del encode
    return kept


@contextmanager
def let_go() -> Iterator[None]:
    """Have memory back from networks that the block alone has known."""
    try:
        yield
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def measured(
    one: Contender, wanted: Wanted, splits: dict[SplitName, Split], folder: Path
) -> dict[SplitName, np.ndarray]:
    """Losses of all draws of a model, [K, n] of each split."""
    total = sum(split.strata.index.size for split in splits.values())
    asking = cache(partial(one.asking, wanted))
    with let_go(), tqdm(total=total, desc=one.name, unit="draw", disable=None) as bar:
        found = {
            name: losses(asking, split, wanted.batch_size, Chunks(folder / name / "losses"), bar)
            for name, split in splits.items()
        }
        asking.cache_clear()
    return found


def change_of(name: str, ours: dict[SplitName, np.ndarray], theirs: dict[SplitName, np.ndarray]) -> Change:
    """By how much another model's losses differ at each timestep, over paired draws."""
    changes = {
        split: np.transpose([relative_change(ours[split][[k]], theirs[split][[k]]) for k in range(len(ours[split]))])
        for split in ours
    }
    return Change(
        model=name,
        losses={split: Losses.of(found) for split, found in theirs.items()},
        relative={split: tuple(change.tolist()) for split, (change, _) in changes.items()},
        relative_stderr={split: tuple(error.tolist()) for split, (_, error) in changes.items()},
    )


def document(
    wanted: Wanted,
    family: Family,
    pictures: dict[SplitName, Pictures],
    chosen: np.ndarray,
    ours: dict[SplitName, np.ndarray],
    change: Change | None,
) -> Timesteps:
    """All of it as timesteps.json holds it."""
    return Timesteps(
        model=family.pipeline.name,
        family=family.title,
        prediction=family.prediction,
        schedule=family.schedule,
        seed=wanted.seed,
        images={name: len(one) for name, one in pictures.items()},
        shape=family.shape,
        draws=wanted.draws,
        timesteps=tuple(chosen.tolist()),
        losses={name: Losses.of(found) for name, found in ours.items()},
        compared=change,
        conditions=conditions(wanted),
    )


def conditions(wanted: Wanted) -> dict[str, str]:
    """What the figures mean nothing without, besides what has a field of its own."""
    return {
        "batch size": str(wanted.batch_size),
        "precision": wanted.precision,
        **computed_on(wanted.device),
        "threads": str(torch.get_num_threads()),
        **versions(),
    }
