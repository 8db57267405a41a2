"""Pictures of a trained model or set of experts: those from which the pipeline computes FID, but for rounding."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unequal.cli.architecture import Sections
from unequal.cli.export import MODELS, autoencoder_of, best, trained
from unequal.cli.loading import AUTOENCODER, timesteps_of
from unequal.data.grids import enlarged, png_of, spaced, tiled
from unequal.data.prepared import PreparedData, tensor_of
from unequal.errors import UserError
from unequal.models.autoencoder import load_autoencoder
from unequal.models.folder import RECORD
from unequal.randomness import Stream
from unequal.runtime.files import appearing
from unequal.runtime.processes import threads
from unequal.runtime.progress import progress
from unequal.sampling.ensemble import Ensemble, SamplingOptions, cut
from unequal.sampling.guidance import guided
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.training import Runtime

DATA = Path("artifacts/data")
#: Pixels per side to which a grid of small images is enlarged.
GRID_PIXELS = 512


class Settings(Sections):
    """Sections that sampling reads."""

    sampling: Sampling
    evaluation: Evaluation
    runtime: Runtime


@dataclass(frozen=True)
class PictureRequest:
    """A request for pictures.

    Attributes:
        model: `best`, a name or a folder.
        steps: number of sampling steps; None: the settings' own.
        label: class of all pictures.
        interpolate: seed of the noise at which an interpolation ends, which starts at that of `seed`, along a great
            circle; None: no interpolation.
    """

    model: str
    count: int
    params: Path = Path("params.yaml")
    steps: int | None = None
    seed: int = 0
    label: int | None = None
    interpolate: int | None = None

    def images(self) -> np.ndarray:
        """Sampled images, uint8 [count, C, H, W], with the settings' threads. Raises UserError."""
        settings = Settings.read(self.params)
        with threads(settings.runtime.threads):
            return self.sampled(settings)

    def sampled(self, settings: Settings) -> np.ndarray:
        """Sample with settings: the evaluation's pictures, but for rounding."""
        sampling = settings.sampling.model_copy(update={"steps": self.steps or settings.sampling.steps})
        runtime, device = settings.runtime, device_of(settings.runtime)
        ensemble = Ensemble.load(self.folder(), device)
        calls = sampling.calls(self.count)
        ensemble = ensemble.accelerated(sampling.precision, runtime.channels_last, runtime.compile, calls)
        ensemble = guided(ensemble, sampling.guidance)
        record = ensemble.record
        spec, data = record.spec, PreparedData.open(DATA) if DATA.exists() else None
        latent, labels, decode = spec.space.autoencoder is not None, None, None
        if self.label is not None:
            labels = torch.tensor([self.label])
        elif data is not None and spec.conditioning.takes_labels_of_images:
            labels = data.labels_of("holdout")
        if latent:
            if autoencoder_of(record) is None:
                raise UserError(f"{AUTOENCODER}: not the autoencoder that {record.name} was trained with")
            decode = load_autoencoder(AUTOENCODER, device, sampling.batch_size, sampling.precision).decode
        options: SamplingOptions = {
            "seed": self.seed,
            "eta": sampling.eta,
            "clip": sampling.clip,
            "originals": None if data is None or latent else tensor_of(data.holdout),
            "variance": sampling.variance,
            "decode": decode,
            "labels": labels,
            "solver": sampling.solver,
        }
        timesteps, start, parts = self.timesteps(sampling, ensemble), self.start(ensemble), list[np.ndarray]()
        with progress(self.count, "images", label="samples", shown=runtime.progress) as bar:
            for ids in cut(self.count, sampling.batch_size):
                numbers, first = (ids, None) if start is None else ([0] * len(ids), start[ids.start : ids.stop])
                parts.append(ensemble.images(numbers, timesteps, start=first, **options).numpy())
                bar.update(len(ids))
        return np.concatenate(parts)

    def start(self, ensemble: Ensemble) -> Tensor | None:
        """Noises [count, …] on the great circle from the first noise of `seed` to that of `interpolate`, if given.

        Noises on the straight line would have a smaller norm than those with which models are trained.
        """
        if self.interpolate is None:
            return None
        one, other = (ensemble.noise_of([0], seed, Stream.SAMPLE_START) for seed in (self.seed, self.interpolate))
        angle = torch.acos(functional.cosine_similarity(one.flatten(), other.flatten(), dim=0).clamp(-1, 1))
        share = torch.linspace(0, 1, self.count, device=one.device).view(-1, *[1] * (one.dim() - 1))
        if angle < 1e-6:
            return one.expand(self.count, *one.shape[1:])
        return (torch.sin((1 - share) * angle) * one + torch.sin(share * angle) * other) / torch.sin(angle)

    def folder(self) -> Path:
        """Folder of the model or of the experts. Raises UserError."""
        name = best() if self.model == "best" else self.model
        for folder in (MODELS / name, Path(name)):
            if (folder / RECORD).exists() or (folder / "group_0" / RECORD).exists():
                return folder
        raise UserError(f"{name}: no such model; allowed: best, the folder of a model, or one of {MODELS}: {trained()}")

    def timesteps(self, sampling: Sampling, ensemble: Ensemble) -> list[int]:
        """Timesteps of the predictions. Raises UserError where a number of steps has no spacing."""
        if self.steps is not None and sampling.spacing is None:
            raise UserError(f"--steps {self.steps}: {self.params} lists the timesteps; allowed: none")
        asked, known = sampling.steps, ensemble.schedule.timesteps
        if (asked if isinstance(asked, int) else asked[0] + 1) > known:
            place = "--steps" if self.steps else f"{self.params}: sampling.steps"
            raise UserError(f"{place}: {asked}; the model has {known} timesteps, 0 … {known - 1}")
        return timesteps_of(sampling, ensemble.record.spec)


def device_of(runtime: Runtime) -> torch.device:
    """Device of runtime.device. Raises UserError where it is CUDA and CUDA is not available."""
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise UserError("runtime.device: 'cuda': PyTorch finds no CUDA device; allowed here: auto, cpu")
    return torch.device("cuda" if torch.cuda.is_available() and runtime.device != "cpu" else "cpu")


def write_pictures(request: PictureRequest, out: Path, grid: bool) -> str:
    """Sample, and write one PNG file per image, or one for all, into a new folder; return a line about them."""
    with appearing(out) as place:
        images = request.images()
        place.mkdir()
        pictures = {f"{number:05d}": image for number, image in enumerate(images)}
        if grid:
            pictures = {"grid": enlarged(tiled(spaced(images)), GRID_PIXELS)}
        for name, picture in pictures.items():
            (place / f"{name}.png").write_bytes(png_of(picture))
    way = "" if request.interpolate is None else f" to {request.interpolate}, interpolated"
    return f"{out / 'grid.png' if grid else out}: {len(images)} images of {request.folder()}, seed {request.seed}{way}"
