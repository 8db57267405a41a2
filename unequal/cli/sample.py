"""Pictures of a trained model or set of experts, equal to those that the pipeline's FID is computed from."""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import ConfigDict
from torch import Tensor

from unequal.artifacts.profiles import read_losses
from unequal.cli.export import AUTOENCODER, MODELS, autoencoder_of
from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.spacing import spaced_timesteps
from unequal.errors import UserError
from unequal.files import appearing, require
from unequal.latents.autoencoder import load_autoencoder
from unequal.models.folder import RECORD
from unequal.sampling.ensemble import Ensemble
from unequal.sampling.guidance import guided
from unequal.settings.evaluation import BY_PROFILE, Sampling
from unequal.settings.strict import Strict, read_yaml, validate
from unequal.settings.training import Runtime

SCORES = Path("results/fid.csv")
DATA, LOSSES = Path("artifacts/data"), Path("artifacts/profiles/base.npz")


class Settings(Strict):
    """Sections of a params file that sampling reads."""

    model_config = ConfigDict(extra="ignore")

    sampling: Sampling
    runtime: Runtime


@dataclass(frozen=True)
class Request:
    """Model to sample (`best`, a name or a folder), count, `steps` in place of the settings' own, and one class."""

    model: str
    count: int
    params: Path = Path("params.yaml")
    steps: int | None = None
    seed: int = 0
    label: int | None = None

    def images(self) -> np.ndarray:
        """Sampled images, uint8 [count, C, H, W]. Raises UserError."""
        settings = validate(Settings, read_yaml(self.params), self.params)
        sampling, device = settings.sampling, device_of(settings.runtime)
        runtime = settings.runtime
        ensemble = Ensemble.load(self.folder(), device)
        ensemble = ensemble.accelerated(sampling.precision, runtime.channels_last, runtime.compile)
        latent = ensemble.record.spec.space.autoencoder is not None
        images = guided(ensemble, sampling.guidance).sample(
            self.count,
            self.timesteps(sampling, ensemble),
            batch_size=sampling.batch_size,
            progress=settings.runtime.progress,
            seed=self.seed,
            eta=sampling.eta,
            clip=sampling.clip,
            originals=tensor_of(PreparedData.open(DATA).holdout) if DATA.exists() and not latent else None,
            variance=sampling.variance,
            decode=self.decoder(ensemble, sampling, device) if latent else None,
            labels=None if self.label is None else torch.tensor([self.label]),
            solver=sampling.solver,
        )
        return images.numpy()

    def folder(self) -> Path:
        """The folder of the model, or of the experts. Raises UserError."""
        name = best() if self.model == "best" else self.model
        for folder in (MODELS / name, Path(name)):
            if (folder / RECORD).exists() or (folder / "group_0" / RECORD).exists():
                return folder
        names = ", ".join(sorted(path.name for path in MODELS.glob("*"))) or "none; `dvc repro` trains them"
        raise UserError(f"{name}: no such model; allowed: best, the folder of a model, or one of {MODELS}: {names}")

    def timesteps(self, sampling: Sampling, ensemble: Ensemble) -> list[int]:
        """Timesteps to predict at. Raises UserError where a number of steps has no spacing."""
        if self.steps is not None and sampling.spacing is None:
            raise UserError(f"--steps {self.steps}: {self.params} lists the timesteps; allowed: none")
        losses = read_losses(LOSSES).mean(1) if sampling.spacing in BY_PROFILE else None
        return spaced_timesteps(self.steps or sampling.steps, ensemble.schedule, sampling.spacing, losses)

    def decoder(self, ensemble: Ensemble, sampling: Sampling, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The decoder of a model of latents. Raises UserError where its autoencoder is gone."""
        if autoencoder_of(ensemble.record) is None:
            raise UserError(f"{AUTOENCODER}: not the autoencoder that {ensemble.record.name} was trained with")
        return load_autoencoder(AUTOENCODER, device, sampling.batch_size).decode


def device_of(runtime: Runtime) -> torch.device:
    """The device of runtime.device. Raises UserError where it is CUDA and CUDA is absent."""
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise UserError("runtime.device: 'cuda': PyTorch finds no CUDA device; allowed here: auto, cpu")
    return torch.device("cuda" if torch.cuda.is_available() and runtime.device != "cpu" else "cpu")


def best() -> str:
    """The variant with the lowest FID of the last run; models of single slots do not compete. Raises UserError."""
    try:
        with require(SCORES).open(encoding="utf-8", newline="") as file:
            scores = {row["variant"]: float(row["fid"]) for row in csv.DictReader(file)}
    except (KeyError, ValueError, TypeError):
        raise UserError(f"{SCORES}: no table of scores; make it again") from None
    names = [name for name in scores if not name.startswith("slot_")]
    if not names:
        raise UserError(f"{SCORES}: scores of no model; name a model")
    return min(names, key=scores.__getitem__)


def write_pictures(request: Request, out: Path, grid: bool) -> str:
    """Sample, and write a PNG file for each image or one for all into a new folder; a line about them."""
    with appearing(out) as place:
        images = request.images()
        place.mkdir()
        pictures = {"grid": tiled(images)} if grid else {f"{number:05d}": image for number, image in enumerate(images)}
        for name, picture in pictures.items():
            height_width_channels = picture.transpose(1, 2, 0)
            Image.fromarray(height_width_channels.squeeze(-1) if len(picture) == 1 else height_width_channels).save(
                place / f"{name}.png"
            )
    return f"{out}: {len(images)} images of {request.folder()}, seed {request.seed}"


def tiled(images: np.ndarray) -> np.ndarray:
    """One image [C, H·rows, W·columns] of images [N, C, H, W], row by row, about as high as wide; the rest is black."""
    count, channels, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    cells = np.zeros((rows * columns, channels, height, width), images.dtype)
    cells[:count] = images
    grid = cells.reshape(rows, columns, channels, height, width).transpose(2, 0, 3, 1, 4)
    return grid.reshape(channels, rows * height, columns * width)
