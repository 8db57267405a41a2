"""Profile one pipeline, or two on the same draws.

The order bounds memory: autoencoder and text encoders are loaded, run and freed one after the other, and their results
are on disk before the network is loaded. The second model is loaded after the first is freed.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch

from unequal.data.folders import first_names
from unequal.errors import UserError, plain, say
from unequal.evaluation.loss_profile import relative_change
from unequal.models.class_names import class_numbers, read_class_names
from unequal.profiler.document import Losses, OtherModel, SplitName, Timesteps
from unequal.profiler.epsilon_errors import EpsilonPredictor, Split, Strata, losses, spread
from unequal.profiler.families.family import LATENT, Family, family_of
from unequal.profiler.image_folder import ImageFolder, refuse_shared
from unequal.profiler.openai_file import SUFFIX, pipeline_of_file
from unequal.profiler.pipeline_folder import PipelineFolder
from unequal.profiler.shard_cache import Rows, ShardCache
from unequal.runtime.chunks import Chunks
from unequal.runtime.devices import computed_on
from unequal.runtime.files import code_hash, content_hash, settings_hash
from unequal.runtime.place import ROOT
from unequal.runtime.progress import progress

T = TypeVar("T")
#: (images or captions, numbers of some) → their rows.
Encoder: TypeAlias = Callable[[T, Sequence[int]], Rows]
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: Most timesteps that are measured by default.
STRATA = 100
#: Folder in the output folder, from which the same command resumes.
CACHE = "cache"


@dataclass(frozen=True)
class ProfileConfig:
    """Settings of a profile.

    Attributes:
        model: folder or Hub id.
        train, held_out: folders of images; None: nothing is held out.
        against: another model, folder or Hub id, on the same draws.
        lora: a file or folder of a LoRA, with which the model is measured again on the same draws.
        draws: n, at each timestep.
        timesteps: K, as `spread` lays them; None: all, or STRATA of more.
        batch_size: draws that the network is asked at once.
        seed: of images and noise.
        resolution: height and width of images in pixels; None: the model's.
        precision: of the networks; in PRECISIONS.
        guidance: input of networks distilled for guidance.
        flags: of the training of OpenAI's `.pt` files.
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
    flags: str | None = None


class ProfileResult(NamedTuple):
    """The document, and the losses of all draws by split, [K, n], of the model and of the other one."""

    document: Timesteps
    model: dict[SplitName, np.ndarray]
    other: dict[SplitName, np.ndarray] | None


@dataclass(frozen=True)
class MeasuredModel:
    """A model that is measured: a pipeline, with a LoRA or without."""

    name: str
    family: Family
    lora: Path | None = None

    def predictor(self, config: ProfileConfig) -> EpsilonPredictor:
        net = self.family.network(config.device, PRECISIONS[config.precision])
        if self.lora is not None:
            self.family.adapt(net, self.lora)
        return EpsilonPredictor(self.family, net, config.device)

    @property
    def facts(self) -> dict[str, Any]:
        lora = None if self.lora is None else content_hash(self.lora)
        return {"pipeline": self.family.pipeline.fingerprint(), "lora": lora}


def profile(config: ProfileConfig) -> ProfileResult:
    """Measure. Raises UserError for wrong input, as far as possible before anything is computed."""
    family = opened(config.model, config)
    model, other = MeasuredModel(family.pipeline.name, family), other_model(config, family)
    images = image_folders(config)
    texts = {name: one.captions() for name, one in images.items()} if family.takes_texts else {}
    labels = labels_of(family, images)
    schedule = family.schedule.tables()
    total = schedule.timesteps
    if (config.timesteps or 2) > total:
        raise UserError(f"--timesteps {config.timesteps}: the schedule of {family.pipeline.name} has {total}")
    chosen = spread(schedule, config.timesteps or STRATA)
    strata = {name: Strata.of(len(one), chosen, total, config.draws, config.seed) for name, one in images.items()}

    for one in (family, *([] if other is None else [other.family])):
        one.pipeline.refuse_inside(config.out)
    facts = facts_of(config, model, images, strata, {"texts": texts, "labels": labels})
    folder = config.out / CACHE / settings_hash(facts)[:16]
    latents = encoded("images", images, partial(image_encoder, config, family), strata, folder)
    classes = {name: torch.tensor(own) for name, own in labels.items()}
    splits = {name: Split(strata[name], latents[name], labels=classes.get(name)) for name in images}

    def losses_of(one: MeasuredModel, place: Path) -> dict[SplitName, np.ndarray]:
        # A LoRA leaves the text encoders as they are.
        shared = folder if one.family is family else place
        captions = encoded("captions", texts, partial(text_encoder, config, one.family), strata, shared)
        complete = {name: replace(split, captions=captions.get(name)) for name, split in splits.items()}
        return measured(one, config, complete, place)

    ours = losses_of(model, folder)
    theirs = None if other is None else losses_of(other, folder / f"other-{settings_hash(other.facts)[:16]}")
    change = None if other is None or theirs is None else change_of(other.name, ours, theirs)
    document = Timesteps(
        model=plain(family.pipeline.name),
        family=family.title,
        prediction=family.prediction,
        schedule=family.schedule,
        seed=config.seed,
        images={name: len(one) for name, one in images.items()},
        shape=family.shape,
        draws=config.draws,
        timesteps=tuple(chosen.tolist()),
        losses={name: Losses.of(found) for name, found in ours.items()},
        compared=change,
        conditions=conditions_of(config),
    )
    return ProfileResult(document, ours, theirs)


def conditions_of(config: ProfileConfig) -> dict[str, str]:
    """Conditions of the computation, name → text."""
    return {
        "batch size": str(config.batch_size),
        "precision": config.precision,
        **computed_on(config.device),
        "threads": str(torch.get_num_threads()),
        **{name: version(name) for name in ("torch", "diffusers", "transformers")},
    }


def opened(source: str, config: ProfileConfig) -> Family:
    """Open a folder, a Hub id or a `.pt` file as a member of its family. Raises UserError where flags are missing."""
    if not source.endswith(SUFFIX):
        pipeline = PipelineFolder.find(source)
    elif config.flags is None:
        raise UserError(f"{source}: needs --flags, those of its training, as in OpenAI's README")
    else:
        pipeline = pipeline_of_file(source, config.flags, config.out / CACHE)
    family = family_of(pipeline, config.resolution)
    family.guidance = config.guidance
    return family


def other_model(config: ProfileConfig, family: Family) -> MeasuredModel | None:
    """The model to compare with the first. Raises UserError if they cannot share draws."""
    if config.lora is not None:
        if not config.lora.exists():
            raise UserError(f"{config.lora}: no such file or folder; --lora takes a LoRA in safetensors")
        family.check_adapter(config.lora)
        return MeasuredModel(f"{family.pipeline.name} with {config.lora}", family, config.lora)
    if config.against is None:
        return None
    other = opened(config.against, config)
    for what, ours, theirs in (
        ("networks", family.title, other.title),
        ("images", family.shape, other.shape),
        ("classes", family.classes, other.classes),
        ("schedules", settings_hash(family.schedule.model_dump()), settings_hash(other.schedule.model_dump())),
        ("autoencoders", autoencoder_hash(family), autoencoder_hash(other)),
    ):
        if ours != theirs:
            raise UserError(
                f"--against {config.against}: its {what} differ from those of {config.model}; only models that answer "
                "the same draws are compared"
            )
    return MeasuredModel(other.pipeline.name, other)


def autoencoder_hash(family: Family) -> str | None:
    """A hash of the weights and scales of the autoencoder; None: there is none."""
    part, config = family.latents_of, family.autoencoder_config
    if part is None or config is None:
        return None
    weights = [content_hash(file) for file in sorted((family.pipeline.path / part).glob("*.safetensors"))]
    return settings_hash([weights, config["scaling_factor"], config.get("shift_factor")])


def image_folders(config: ProfileConfig) -> dict[SplitName, ImageFolder]:
    """Images of each split. Raises UserError."""
    found: dict[SplitName, ImageFolder] = {"train": ImageFolder.of(config.train)}
    if config.held_out is not None:
        found["held_out"] = ImageFolder.of(config.held_out)
        refuse_shared(found["train"], found["held_out"])
    for one in found.values():
        if notes := one.notes():
            say(f"{one.folder}: {notes}", err=True)
    return found


def labels_of(family: Family, images: dict[SplitName, ImageFolder]) -> dict[SplitName, list[int]]:
    """The class of each image by its subfolder if the network takes classes; without subfolders the null class.

    Raises UserError if there is neither.
    """
    if family.classes is None:
        return {}
    known, found = images["train"].subfolders, {}
    for name, one in images.items():
        subfolders = one.subfolders
        if known is not None and subfolders is not None:
            names = sorted(set(subfolders))
            numbers = class_numbers(names, read_class_names(family.pipeline.path), family.classes, str(one.folder))
            number_of = dict(zip(names, numbers, strict=True))
            found[name] = [number_of[subfolder] for subfolder in subfolders]
        elif family.null_class is not None and known is None and subfolders is None:
            found[name] = [family.null_class] * len(one)
        else:
            raise UserError(
                f"{one.folder}: the {family.title} takes one of {family.classes} classes; needed: images in a "
                f"subfolder for each class, one level deep, in all folders{strays_in(images.values())}"
            )
    return found


def strays_in(folders: Iterable[ImageFolder]) -> str:
    """Name images next to subfolders, which keep these from being classes; empty where there are none."""
    for one in folders:
        strays = [file for file in one.files if file.parent == one.folder]
        if 0 < len(strays) < len(one):
            return f"; next to subfolders of {one.folder} stands {first_names(strays)}"
    return ""


#: Packages whose code shapes what is cached.
ROOMS = tuple(f"unequal/{room}" for room in ("diffusion", "timesteps", "models", "evaluation", "profiler"))


def facts_of(
    config: ProfileConfig,
    model: MeasuredModel,
    images: dict[SplitName, ImageFolder],
    strata: dict[SplitName, Strata],
    conditions: dict[str, Any],
) -> dict[str, Any]:
    """Facts that the cached files depend on: other facts have another folder."""
    return {
        "model": model.facts,
        "code": code_hash(*map(ROOT.joinpath, ROOMS)),
        "images": {
            name: [len(one), settings_hash([content_hash(one.files[number]) for number in strata[name].drawn.tolist()])]
            for name, one in images.items()
        },
        "conditions": conditions,
        "timesteps": strata["train"].timesteps.tolist(),
        "asked": [config.draws, config.batch_size, config.seed, config.precision, config.guidance],
        "shape": model.family.shape,
        "computed": [computed_on(config.device), torch.get_num_threads()],
    }


def image_encoder(config: ProfileConfig, family: Family) -> Encoder[ImageFolder]:
    """Load what makes the network's input of images."""
    encode, channels = family.image_encoder(config.device), family.image_channels

    def rows(of: ImageFolder, numbers: Sequence[int]) -> Rows:
        return {LATENT: encode(of.pixels(numbers, channels, family.resolution)).float()}

    return rows


def text_encoder(config: ProfileConfig, family: Family) -> Encoder[list[str]]:
    """Load what encodes captions."""
    encode = family.text_encoder(config.device, PRECISIONS[config.precision])
    return lambda of, numbers: encode([of[number] for number in numbers])


def encoded(
    what: str,
    inputs: dict[SplitName, T],
    load: Callable[[], Encoder[T]],
    strata: dict[SplitName, Strata],
    folder: Path,
) -> dict[SplitName, ShardCache]:
    """Rows of what is drawn of each split, on disk; the encoder is loaded where some are missing."""
    caches = {name: ShardCache(folder / name / what, strata[name].drawn) for name in inputs}
    if any(one.missing for one in caches.values()):
        with freed_memory():
            encode = load()
            for name, one in caches.items():
                one.make(partial(encode, inputs[name]), f"{name} {what}")
            del encode
    return caches


@contextmanager
def freed_memory() -> Iterator[None]:
    """Free the memory of networks that only the block refers to."""
    try:
        yield
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def measured(
    one: MeasuredModel, config: ProfileConfig, splits: dict[SplitName, Split], folder: Path
) -> dict[SplitName, np.ndarray]:
    """Losses of all draws of a model, [K, n] of each split."""
    total = sum(split.strata.index.size for split in splits.values())
    predictor = cache(partial(one.predictor, config))
    with freed_memory(), progress(total, "draws", label=one.name) as bar:
        found = {
            name: losses(predictor, split, config.batch_size, Chunks(folder / name / "losses"), bar)
            for name, split in splits.items()
        }
        predictor.cache_clear()
    return found


def change_of(name: str, ours: dict[SplitName, np.ndarray], theirs: dict[SplitName, np.ndarray]) -> OtherModel:
    """Change of another model's losses at each timestep, over paired draws."""
    changes = {
        split: np.transpose([relative_change(ours[split][[k]], theirs[split][[k]]) for k in range(len(ours[split]))])
        for split in ours
    }
    return OtherModel(
        model=plain(name),
        losses={split: Losses.of(found) for split, found in theirs.items()},
        relative={split: tuple(change.tolist()) for split, (change, _) in changes.items()},
        relative_stderr={split: tuple(error.tolist()) for split, (_, error) in changes.items()},
    )
