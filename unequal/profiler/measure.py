"""Profile one pipeline, or two on the same draws.

The order bounds memory: autoencoder and text encoders are loaded, run and freed one after the other, and their results
are on disk before the network is loaded. The second model is loaded after the first is freed.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from unequal.errors import UserError, plain
from unequal.evaluation.loss_profile import relative_change
from unequal.profiler.document import Losses, OtherModel, SplitName, Timesteps
from unequal.profiler.epsilon_errors import EpsilonPredictor, ShardCache, Split, Strata, losses, spread
from unequal.profiler.family import LATENT, Family, Rows, family_of
from unequal.profiler.image_folder import ImageFolder, image_folders, labels_of
from unequal.profiler.openai_file import SUFFIX, pipeline_of_file
from unequal.profiler.pipeline_folder import PipelineFolder
from unequal.runtime.chunks import Chunks
from unequal.runtime.devices import computed_on
from unequal.runtime.files import code_hash, content_hash, settings_hash
from unequal.runtime.place import ROOT
from unequal.runtime.progress import progress

T = TypeVar("T")
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: Most timesteps that are measured by default.
STRATA = 100
#: Folder in the output folder, from which the same command resumes.
CACHE = "cache"
#: Packages whose code shapes what is cached.
ROOMS = tuple(f"unequal/{room}" for room in ("diffusion", "timesteps", "models", "evaluation", "profiler"))


@dataclass(frozen=True)
class ProfileConfig:
    """Settings of a profile.

    Attributes:
        model: folder, Hub id or `.pt` file of OpenAI's.
        train, held_out: folders of images; None: nothing is held out.
        against: another model on the same draws.
        lora: a file or folder of a LoRA, with which the model is measured again on the same draws.
        draws: n, at each timestep.
        timesteps: K, as `spread` lays them; None: all, or STRATA of more.
        batch_size: draws that the network is asked at once.
        seed: of images and noise.
        resolution: height and width of images in pixels; None: the model's.
        precision: of the networks; in PRECISIONS.
        guidance: input of networks distilled for guidance.
        flags: of the training of `.pt` files.
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
    images = image_folders(config.train, config.held_out)
    texts = {split: folder.captions() for split, folder in images.items()} if family.takes_texts else {}
    labels = labels_of(images, family)
    schedule = family.schedule.tables()
    total = schedule.timesteps
    if (config.timesteps or 2) > total:
        raise UserError(f"--timesteps {config.timesteps}: the schedule of {family.pipeline.name} has {total}")
    chosen = spread(schedule, config.timesteps or STRATA)
    strata = {split: Strata.of(len(own), chosen, total, config.draws, config.seed) for split, own in images.items()}
    for each in (model, *([other] if other else [])):
        each.family.pipeline.refuse_inside(config.out)

    drawn = {
        split: [len(own), settings_hash([content_hash(own.files[i]) for i in strata[split].drawn.tolist()])]
        for split, own in images.items()
    }
    facts = {
        "model": model.facts,
        "code": code_hash(*map(ROOT.joinpath, ROOMS)),
        "images": drawn,
        "conditions": {"texts": texts, "labels": labels},
        "timesteps": chosen.tolist(),
        "asked": [config.draws, config.batch_size, config.seed, config.precision, config.guidance],
        "shape": family.shape,
        "computed": [computed_on(config.device), torch.get_num_threads()],
    }
    folder = config.out / CACHE / settings_hash(facts)[:16]

    def image_encoder() -> Callable[[ImageFolder, Sequence[int]], Rows]:
        encode = family.image_encoder(config.device)
        return lambda own, rows: {LATENT: encode(own.pixels(rows, family.image_channels, family.resolution)).float()}

    latents = encoded("images", images, image_encoder, strata, folder)
    splits = {
        split: Split(strata[split], latents[split], labels=torch.tensor(labels[split]) if labels else None)
        for split in images
    }

    def losses_of(each: MeasuredModel, place: Path) -> dict[SplitName, np.ndarray]:
        def text_encoder() -> Callable[[list[str], Sequence[int]], Rows]:
            encode = each.family.text_encoder(config.device, PRECISIONS[config.precision])
            return lambda own, rows: encode([own[row] for row in rows])

        # A LoRA leaves the text encoders as they are.
        captions = encoded("captions", texts, text_encoder, strata, folder if each.family is family else place)
        complete = {split: replace(own, captions=captions.get(split)) for split, own in splits.items()}
        return measured(each, config, complete, place)

    ours = losses_of(model, folder)
    theirs = None if other is None else losses_of(other, folder / f"other-{settings_hash(other.facts)[:16]}")
    document = Timesteps(
        model=plain(family.pipeline.name),
        family=family.title,
        prediction=family.prediction,
        schedule=family.schedule,
        seed=config.seed,
        images={split: len(own) for split, own in images.items()},
        shape=family.shape,
        draws=config.draws,
        timesteps=tuple(chosen.tolist()),
        losses={split: Losses.of(own) for split, own in ours.items()},
        compared=None if other is None or theirs is None else change_of(other.name, ours, theirs),
        conditions={
            "batch size": str(config.batch_size),
            "precision": config.precision,
            **computed_on(config.device),
            "threads": str(torch.get_num_threads()),
            **{name: version(name) for name in ("torch", "diffusers", "transformers")},
        },
    )
    return ProfileResult(document, ours, theirs)


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
        ("autoencoders", family.autoencoder_hash(), other.autoencoder_hash()),
    ):
        if ours != theirs:
            raise UserError(
                f"--against {config.against}: its {what} differ from those of {config.model}; only models that answer "
                "the same draws are compared"
            )
    return MeasuredModel(other.pipeline.name, other)


def encoded(
    what: str,
    inputs: dict[SplitName, T],
    load: Callable[[], Callable[[T, Sequence[int]], Rows]],
    strata: dict[SplitName, Strata],
    folder: Path,
) -> dict[SplitName, ShardCache]:
    """Rows of what is drawn of each split, on disk; the encoder is loaded where some are missing."""
    caches = {split: ShardCache(folder / split / what, strata[split].drawn) for split in inputs}
    missing = {split: own.missing() for split, own in caches.items()}
    if any(missing.values()):
        with freed_memory():
            encode = load()
            for split, own in caches.items():
                own.make(missing[split], partial(encode, inputs[split]), f"{split} {what}")
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
    model: MeasuredModel, config: ProfileConfig, splits: dict[SplitName, Split], folder: Path
) -> dict[SplitName, np.ndarray]:
    """Losses of all draws of a model, [K, n] of each split."""
    total = sum(split.strata.index.size for split in splits.values())
    predictor = cache(partial(model.predictor, config))
    with freed_memory(), progress(total, "draws", label=model.name) as bar:
        tables = {
            split: losses(predictor, own, config.batch_size, Chunks(folder / split / "losses"), bar)
            for split, own in splits.items()
        }
        predictor.cache_clear()
    return tables


def change_of(name: str, ours: dict[SplitName, np.ndarray], theirs: dict[SplitName, np.ndarray]) -> OtherModel:
    """Change of another model's losses at each timestep, over paired draws."""
    changes = {
        split: np.transpose([relative_change(ours[split][[k]], theirs[split][[k]]) for k in range(len(ours[split]))])
        for split in ours
    }
    return OtherModel(
        model=plain(name),
        losses={split: Losses.of(table) for split, table in theirs.items()},
        relative={split: tuple(change.tolist()) for split, (change, _) in changes.items()},
        relative_stderr={split: tuple(error.tolist()) for split, (_, error) in changes.items()},
    )
