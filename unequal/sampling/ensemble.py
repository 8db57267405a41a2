"""Sampling with one model, or with an ensemble of expert denoisers, one for each range of timesteps."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from unequal.data.prepared import to_model_range, to_uint8
from unequal.diffusion.solvers import SOLVERS, ancestral, ddim
from unequal.errors import UserError
from unequal.models.denoiser import Denoiser, Precision
from unequal.models.folder import RECORD, ModelRecord, load_heads, load_record
from unequal.models.pruned import load_any_model
from unequal.models.spec import ModelSpec
from unequal.models.weights import OneAtATime, all_fit
from unequal.randomness import Stream, noise_of
from unequal.runtime.devices import is_compiled
from unequal.timesteps.partition import members_of


@dataclass(frozen=True)
class Expert:
    """A denoiser and its record, which says what timesteps are routed to it."""

    denoiser: Denoiser
    record: ModelRecord

    @classmethod
    def load(cls, folder: Path, device: torch.device, resident: bool = True) -> Self:
        """Load a model folder, pruned or not, with its weights on the device or in host memory. Raises UserError."""
        net, record = load_any_model(folder)
        heads = load_heads(folder)
        net.to(device if resident else "cpu")
        return cls(Denoiser.of(net, record.spec, None if heads is None else heads.weights, device), record)


class SamplingOptions(TypedDict, total=False):
    """Options of sampling; see `Ensemble.images`."""

    seed: int
    eta: float
    clip: bool
    originals: Tensor | None
    variance: str
    decode: Callable[[Tensor], Tensor] | None
    labels: Tensor | None
    solver: str


class Ensemble:
    """Denoisers that together cover every timestep once; a single model is the simplest case.

    Args:
        experts: in any order, all asked on one device.
        resident: whether all networks are there; if not, they are in host memory, and one at a time is brought.

    Raises:
        UserError: gaps, overlaps, or experts of different schedules or images.
    """

    def __init__(self, experts: Sequence[Expert], resident: bool = True) -> None:
        self.experts = sorted(experts, key=lambda expert: expert.record.first)
        self.record = self.experts[0].record
        self.schedule = self.experts[0].denoiser.schedule
        self.device = self.experts[0].denoiser.device
        self.offload = None if resident else OneAtATime([expert.denoiser.net for expert in self.experts], self.device)
        self.routes = members_of(
            [expert.record.timesteps for expert in self.experts], self.schedule.timesteps, "experts"
        )
        check_alike([expert.record.spec for expert in self.experts])

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str = "cpu",
        resident: bool | None = None,
    ) -> "Ensemble":
        """A model folder, pruned or not, or a folder of `group_0`, `group_1` … as many as the records say.

        Args:
            folder: of a model or of several.
            device: where they are asked.
            resident: all networks on the device, or one at a time; None: all if its free memory allows it.
        """
        folder, device = Path(folder), torch.device(device)
        single = (folder / RECORD).exists() or not (folder / "group_0").exists()
        # Groups left from a plan of more are passed over.
        count = 1 if single else load_record(folder / "group_0").groups or 1
        folders = [folder] if single else [folder / f"group_{group}" for group in range(count)]
        if resident is None:
            weights = sum(load_record(place).parameters for place in folders)
            resident = single or all_fit(weights * torch.float32.itemsize, device)
        experts = [Expert.load(place, device, resident) for place in folders]
        if single:  # it answers for every timestep, also those that it was not fine-tuned on
            (alone,) = experts
            whole = alone.record.changed(first=0, last=alone.record.spec.timesteps - 1, stride=1)
            experts = [Expert(alone.denoiser, whole)]
        return cls(experts, resident)

    def accelerated(
        self, precision: Precision, channels_last: bool = False, compiled: bool | str = False, calls: int = 0
    ) -> Self:
        """Ensemble of the same networks in another precision and layout; see `Denoiser.accelerated`."""
        quick, each = copy.copy(self), calls // len(self.experts)
        if self.offload is not None:
            self.offload.release()
        if is_compiled(compiled, self.device, each):
            from torch._dynamo import config  # takes seconds

            # Experts that are pruned differently share a class, of which PyTorch compiles eight variants by default.
            config.recompile_limit = max(config.recompile_limit, 2 * len(self.experts))
        quick.experts = [
            Expert(expert.denoiser.accelerated(precision, channels_last, compiled, each), expert.record)
            for expert in self.experts
        ]
        if self.offload is not None:  # of the weights as they lie now
            quick.offload = OneAtATime([expert.denoiser.net for expert in quick.experts], self.device)
        return quick

    def of(self, timestep: int) -> Expert:
        return self.experts[self.routes[timestep]]

    def ready(self, timestep: int) -> Denoiser:
        """The denoiser of a timestep, its network on the device."""
        denoiser = self.of(timestep).denoiser
        if self.offload is not None:
            self.offload.bring(denoiser.net)
        return denoiser

    def steps_per_expert(self, timesteps: Sequence[int]) -> list[int]:
        """Number of these predictions (`unequal.diffusion.solvers.network_calls`) that are routed to each expert."""
        return np.bincount(self.routes[list(timesteps)], minlength=len(self.experts)).tolist()

    def macs_per_image(self, timesteps: Sequence[int]) -> int:
        return sum(self.of(t).record.macs for t in timesteps)

    def parameters_per_step(self, timesteps: Sequence[int]) -> float:
        """Parameters that a prediction takes, as paper 3 counts them: the mean over predictions at these timesteps."""
        return sum(self.of(t).record.parameters for t in timesteps) / len(timesteps)

    @property
    def parameters(self) -> int:
        """Parameters of all experts together, as a disk holds them."""
        return sum(expert.record.parameters for expert in self.experts)

    @torch.no_grad()
    def denoise(
        self,
        x_t: Tensor,
        timesteps: Sequence[int],
        eta: float = 0.0,
        clip: bool = True,
        noise: Callable[[int], Tensor] | None = None,
        condition: Tensor | None = None,
        variance: str = "posterior",
        solver: str = "ddim",
    ) -> Tensor:
        """Follow a falling list of timesteps from noise to images.

        Args:
            x_t: [B, C, H, W], N(0, 1).
            timesteps: from `unequal.diffusion.spacing.sampling_timesteps`.
            eta: 0 deterministic, 1 as noisy as DDPM.
            clip: keep predicted images within [-1, 1].
            noise: step number → [B, C, H, W]; needed where eta > 0.
            condition: enlarged low-resolution images [B, C, H, W] for super-resolution, labels [B] for a
                class-conditional model; no other takes any.
            variance: of the noise at eta 1: `posterior`, or the `learned` one.
            solver: a key of `unequal.diffusion.solvers.SOLVERS`; each of its predictions is routed by its own timestep.

        Returns:
            [B, C, H, W], about [-1, 1].

        Raises:
            UserError: a learned variance is asked of a model that has none, or for another eta; or noise of a solver
                that adds none.
        """
        if solver != "ddim":
            if eta or variance != "posterior":
                raise UserError(f"solver '{solver}' adds no noise; allowed with eta {eta:g}: ddim")
            return SOLVERS[solver](x_t, timesteps, self.schedule, self.predictor(clip, condition))
        if variance == "learned":
            if eta != 1 or noise is None:
                raise UserError(f"a learned variance is that of eta 1, with noise; asked for with eta {eta:g}")
            both = self.predictor(clip, condition, Denoiser.x0_and_share)
            return ancestral(x_t, timesteps, self.schedule, both, noise)
        return ddim(x_t, timesteps, self.schedule, self.predictor(clip, condition), eta, noise)

    def predictor(
        self, clip: bool, condition: Tensor | None = None, ask: Callable[..., Any] = Denoiser.x0
    ) -> Callable[[Tensor, int], Any]:
        """Function that predicts x0 from (x_t, t), for images with this condition or for several such batches.

        With `Denoiser.x0_and_share` it also predicts the share of log β in a step's log-variance.
        """

        def predict(x: Tensor, t: int) -> Any:
            repeated = None if condition is None else torch.cat([condition] * (len(x) // len(condition)))
            answer = ask(self.ready(t).conditioned(repeated), x, torch.full((len(x),), t, device=x.device))
            x0, *further = answer if isinstance(answer, tuple) else (answer,)
            x0 = x0.clamp(-1, 1) if clip else x0
            return (x0, *further) if further else x0

        return predict

    def sample(
        self,
        count: int,
        timesteps: Sequence[int],
        *,
        batch_size: int = 256,
        **options: Unpack[SamplingOptions],
    ) -> Tensor:
        """Images 0 … count − 1 in batches, as uint8 [count, C, H, W] on the CPU; see `images`."""
        return torch.cat([self.images(ids, timesteps, **options) for ids in cut(count, batch_size)])

    def images(
        self,
        ids: Sequence[int],
        timesteps: Sequence[int],
        *,
        start: Tensor | None = None,
        seed: int = 0,
        eta: float = 0.0,
        clip: bool = True,
        originals: Tensor | None = None,
        variance: str = "posterior",
        decode: Callable[[Tensor], Tensor] | None = None,
        labels: Tensor | None = None,
        solver: str = "ddim",
    ) -> Tensor:
        """Images with these numbers, uint8 [B, C, H, W] on the CPU; each always starts from the same noise of a seed.

        A model of super-resolution enlarges the low-resolution forms of `originals`, uint8 [N, C, H, W],
        image i that of number i mod N; a model of generation looks at none. A class-conditional model takes
        `labels`, int64 [N], in turn likewise; without them, image i of a seed has a label that is drawn
        uniformly from all classes, the same for every model. `decode` makes images, about [-1, 1], of what a model of
        latents has sampled. `start` [B, …] replaces the noise of the seed that images begin with.

        Raises:
            UserError: latents without a decoder, or clipped; labels of no class of the model; samples that are not
                finite, of which uint8 would make black pixels.
        """
        self.check_space(clip, decode is not None)
        noise = partial(self.noise_of, ids, seed, Stream.SAMPLE_ADDED)
        x_t = self.noise_of(ids, seed, Stream.SAMPLE_START) if start is None else start.to(self.device)
        condition = self.condition(ids, originals, seed, labels)
        x0 = self.denoise(x_t, timesteps, eta, clip, noise, condition, variance, solver)
        images = x0 if decode is None else decode(x0)
        # Of NaN in latents, a decoder to the nearest codes would make images like any others.
        if not (bool(x0.isfinite().all()) and bool(images.isfinite().all())):
            raise UserError(f"{self.record.name}: sampled NaN or infinite values in images {ids[0]} to {ids[-1]}")
        return to_uint8(images).cpu()

    def check_space(self, clip: bool, decoded: bool) -> None:
        """Raise UserError where latents would be taken for pixels, or pixels for latents."""
        latent = self.record.spec.space.autoencoder is not None
        if latent and clip:
            raise UserError("sampling.clip: true bounds pixels, and latents have no bounds; allowed for latents: false")
        if latent != decoded:
            what = "latents is sampled with their autoencoder" if latent else "pixels has no use for an autoencoder"
            raise UserError(f"{self.record.name}: a model of {what}")

    def condition(
        self, ids: Sequence[int], originals: Tensor | None, seed: int = 0, labels: Tensor | None = None
    ) -> Tensor | None:
        """Condition of images with these numbers, a row each: see `sample`."""

        def repeated(rows: Tensor | None) -> Tensor | None:
            return None if rows is None else rows[torch.tensor(ids) % len(rows)].to(self.device)

        images = repeated(originals)
        known = None if images is None else to_model_range(images)
        condition = self.record.spec.conditioning.of_samples(ids, seed, known, repeated(labels))
        return None if condition is None else condition.to(self.device)

    def noise_of(self, ids: Sequence[int], *key: int) -> Tensor:
        return noise_of(self.record.spec.space.shape, ids, *key, device=self.device)


def cut(count: int, batch_size: int) -> list[range]:
    """The numbers 0 … count − 1 in batches, the last one as long as it comes out."""
    return [range(start, min(start + batch_size, count)) for start in range(0, count, batch_size)]


def check_alike(specs: Sequence[ModelSpec]) -> None:
    """Raise UserError where models cannot take turns at one image. What they predict may differ."""
    for field in ("schedule", "condition", "variance", "space"):
        values = sorted({str(getattr(spec, field)) for spec in specs})
        if len(values) > 1:
            raise UserError(f"experts differ in {field}: {'; '.join(values)}: they must be of one base")
