"""DDIM with one model or with an expert for each range of timesteps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from unequal.data.pixels import to_model_range, to_uint8
from unequal.diffusion.ddim import ddim
from unequal.errors import UserError
from unequal.models.artifact import RECORD, ModelRecord
from unequal.models.denoiser import Denoiser, load_denoiser
from unequal.parts import UNKEPT, Parts
from unequal.randomness import Stream, torch_generator


@dataclass(frozen=True)
class Expert:
    """A denoiser and the inclusive range of timesteps that are routed to it."""

    denoiser: Denoiser
    record: ModelRecord


class Experts:
    """Denoisers that together cover every timestep once; a single model is the simplest case.

    Raises:
        UserError: gaps, overlaps, or experts of different schedules or images.
    """

    def __init__(self, experts: Sequence[Expert]) -> None:
        self.experts = sorted(experts, key=lambda expert: expert.record.first)
        self.record = self.experts[0].record
        self.schedule = self.experts[0].denoiser.schedule
        ranges = [(expert.record.first, expert.record.last) for expert in self.experts]
        expected = 0
        for first, last in ranges:
            if first != expected:
                raise UserError(
                    f"experts for {ranges} do not cover timesteps 0 … {self.record.timesteps - 1} once each"
                )
            expected = last + 1
        if expected != self.record.timesteps:
            raise UserError(f"experts for {ranges} do not cover timesteps 0 … {self.record.timesteps - 1} once each")
        for field in ("schedule", "timesteps", "image_size", "channels", "enlargement"):
            values = sorted({str(getattr(expert.record, field)) for expert in self.experts})
            if len(values) > 1:
                raise UserError(f"experts differ in {field}: {', '.join(values)}; they must be of one base")

    @classmethod
    def load(cls, folder: Path | str, device: torch.device | str = "cpu", select: str | None = None) -> "Experts":
        """A model folder, or a folder of `group_0`, `group_1` … as many as the records say.

        Of a model with three heads, `select` may name another way to combine them; see `load_denoiser`.
        """
        folder, device = Path(folder), torch.device(device)
        if (folder / RECORD).exists():
            denoiser, record = load_denoiser(folder, device, select)
            return cls([Expert(denoiser, whole_range(record))])
        first = Expert(*load_denoiser(folder / "group_0", device, select))
        rest = [
            Expert(*load_denoiser(folder / f"group_{i}", device, select)) for i in range(1, first.record.groups or 1)
        ]
        return cls([first, *rest])

    def of(self, timestep: int) -> Expert:
        """The expert of a timestep."""
        return next(expert for expert in self.experts if timestep <= expert.record.last)

    def macs_per_image(self, timesteps: Sequence[int]) -> int:
        """Multiply–accumulates of sampling one image at these timesteps."""
        return sum(self.of(t).record.macs for t in timesteps)

    @property
    def parameters(self) -> int:
        """Parameters of all experts together."""
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
    ) -> Tensor:
        """Follow a falling list of timesteps from noise to images.

        Args:
            x_t: [B, C, H, W], N(0, 1).
            timesteps: from `unequal.diffusion.ddim.sampling_timesteps`.
            eta: 0 deterministic, 1 as noisy as DDPM.
            clip: keep predicted images within [-1, 1].
            noise: step number → [B, C, H, W]; needed where eta > 0.
            condition: [B, C, H, W], enlarged low-resolution images; needed by super-resolution alone.

        Returns:
            [B, C, H, W], about [-1, 1].
        """
        return ddim(x_t, timesteps, self.schedule.alphas_cumprod, self.predictor(clip, condition), eta, noise)

    def predictor(self, clip: bool, condition: Tensor | None = None) -> Callable[[Tensor, int], Tensor]:
        """What predicts x0 from (x_t, t), for images with this condition or for several such batches end to end."""

        def predict(x: Tensor, t: int) -> Tensor:
            seen = None if condition is None else condition.repeat(len(x) // len(condition), 1, 1, 1)
            x0 = self.of(t).denoiser.beside(seen).x0(x, torch.full((len(x),), t, device=x.device))
            return x0.clamp(-1, 1) if clip else x0

        return predict

    def sample(
        self,
        count: int,
        timesteps: Sequence[int],
        seed: int = 0,
        batch_size: int = 256,
        eta: float = 0.0,
        clip: bool = True,
        progress: bool = False,
        originals: Tensor | None = None,
        parts: Parts = UNKEPT,
    ) -> Tensor:
        """Images as uint8 [count, C, H, W] on the CPU; image i of a seed starts from the same noise always.

        A model of super-resolution enlarges the low-resolution forms of `originals`, uint8 [N, C, H, W],
        image i that of number i mod N; a model of generation looks at none. `parts` are the batches that
        an earlier attempt at the same has left.
        """

        def batch(ids: range) -> np.ndarray:
            noise = partial(self.noise_of, ids, seed, Stream.SAMPLE_ADDED)
            x_t = self.noise_of(ids, seed, Stream.SAMPLE_START)
            condition = self.condition(ids, originals)
            return to_uint8(self.denoise(x_t, timesteps, eta, clip, noise, condition)).cpu().numpy()

        starts = tqdm(range(0, count, batch_size), unit="batch", disable=None if progress else True)
        shares = (range(start, min(start + batch_size, count)) for start in starts)
        return torch.from_numpy(np.concatenate([parts.get(str(ids.start), partial(batch, ids)) for ids in shares]))

    def condition(self, ids: Sequence[int], originals: Tensor | None) -> Tensor | None:
        """What a model of super-resolution sees of the originals with these numbers, [B, C, H, W]."""
        if originals is None:
            return None
        denoiser = self.experts[0].denoiser
        chosen = originals[torch.tensor(ids) % len(originals)].to(denoiser.device)
        return denoiser.condition_of(to_model_range(chosen))

    def noise_of(self, ids: Sequence[int], *key: int) -> Tensor:
        """Noise for images with these numbers, see `noise_of`."""
        shape = (self.record.channels, self.record.image_size, self.record.image_size)
        return noise_of(shape, ids, *key).to(self.experts[0].denoiser.device)


def noise_of(shape: Sequence[int], ids: Sequence[int], *key: int) -> Tensor:
    """N(0, 1) for each image from its own generator, so that batches may be cut anywhere, [B, *shape] on the CPU."""
    return torch.stack([torch.randn(tuple(shape), generator=torch_generator("cpu", *key, i)) for i in ids])


def whole_range(record: ModelRecord) -> ModelRecord:
    """A model sampled alone answers for every timestep, also those that it was not fine-tuned on."""
    return replace(record, first=0, last=record.timesteps - 1)
