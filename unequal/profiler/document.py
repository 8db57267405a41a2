"""timesteps.json, the measurements of a profile.

Losses are mean squared errors of ε per value, at some timesteps of the model's schedule or at all of them. In the other
spaces they are these times a factor of the schedule alone, see `loss_profile.space_factor`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import torch
from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import Flow, NoiseSchedule, VariancePreserving
from unequal.errors import UserError
from unequal.evaluation.loss_profile import LossProfile
from unequal.runtime.files import read_json, write_json
from unequal.settings.strict import Strict, validate


def printable(text: str) -> str:
    """Return a text that is one line without escapes; the file may come from somebody else. Raises ValueError."""
    if not text.isprintable():
        raise ValueError("holds line breaks or signs that do not print")
    return text


Line = Annotated[str, AfterValidator(printable)]
#: Images that a model was trained on, and others.
SplitName = Literal["train", "held_out"]


class Betas(Strict):
    """A schedule that preserves variance."""

    kind: Literal["variance_preserving"] = "variance_preserving"
    betas: tuple[PositiveFloat, ...] = Field(min_length=2, description="of all timesteps, [T]")

    def tables(self) -> NoiseSchedule:
        """The schedule. Raises UserError where the betas are none."""
        return VariancePreserving("variance_preserving", torch.tensor(self.betas, dtype=torch.float64))


class Shifted(Strict):
    """A rectified flow on the grid s = (t + ½)/T, shifted."""

    kind: Literal["flow"] = "flow"
    timesteps: PositiveInt = Field(description="T")
    shift: PositiveFloat = Field(description="k of k·s/(1 + (k − 1)·s); 1: none")

    def tables(self) -> NoiseSchedule:
        return Flow(self.timesteps, self.shift)


class Losses(Strict):
    """Errors of ε over the draws at each measured timestep, [K] each."""

    mean: tuple[PositiveFloat, ...] = Field(description="mean over draws")
    stderr: tuple[float, ...] = Field(description="its standard error")
    second_moment: tuple[PositiveFloat, ...] = Field(description="mean square over draws")

    @classmethod
    def of(cls, losses: np.ndarray) -> Self:
        """From the losses of all draws, [K, n], n ≥ 2."""
        profile = LossProfile.of(losses)
        rows = (profile.mean, profile.stderr, np.square(losses.astype(np.float64)).mean(1))
        return cls(**{name: tuple(row.tolist()) for name, row in zip(cls.model_fields, rows, strict=True)})


class OtherModel(Strict):
    """Losses of another model on the same draws, and their change."""

    model: Line = Field(description="the other one: a checkpoint, or the model with an adapter")
    losses: dict[SplitName, Losses]
    relative: dict[SplitName, tuple[float, ...]] = Field(description="its mean loss over the model's, less 1, [K]")
    relative_stderr: dict[SplitName, tuple[float, ...]] = Field(description="its standard error over paired draws, [K]")


class Timesteps(Strict):
    """The whole file."""

    format: Literal[1] = Field(default=1, description="of this file's form")
    model: Line = Field(description="as it was named: a folder, or owner/name at a revision")
    family: Line = Field(description="its class in diffusers")
    prediction: Prediction = Field(description="what the network predicts")
    schedule: Annotated[Betas | Shifted, Field(discriminator="kind")]
    seed: NonNegativeInt = Field(description="of images, noise and timesteps")
    images: dict[SplitName, PositiveInt] = Field(description="how many there are of each split")
    shape: tuple[PositiveInt, PositiveInt, PositiveInt] = Field(
        description="[C, H, W] of what the network sees: an image or a latent"
    )
    draws: PositiveInt = Field(ge=2, description="n, at each measured timestep")
    timesteps: tuple[NonNegativeInt, ...] = Field(min_length=2, description="those that were measured, rising, [K]")
    losses: dict[SplitName, Losses]
    compared: OtherModel | None = Field(default=None, description="null: one model alone was measured")
    conditions: dict[Line, Line] = Field(default={}, description="what else the figures depend on, in words")

    @model_validator(mode="after")
    def tables_are_of_the_timesteps(self) -> Self:
        """Figures are as many as timesteps, and each timestep is one of the schedule."""
        try:
            steps, last = self.timesteps, self.schedule.tables().timesteps - 1
        except UserError as error:
            raise ValueError(f"schedule: {error}") from None
        if list(steps) != sorted(set(steps)) or steps[-1] > last:
            raise ValueError(f"timesteps: must rise, within 0 … {last}")
        if self.losses.keys() != self.images.keys() or not self.losses:
            raise ValueError("losses: must be of the splits that `images` names, and of one at least")
        rows = [row for losses in self.losses.values() for row in (losses.mean, losses.stderr, losses.second_moment)]
        if wrong := [len(row) for row in rows if len(row) != len(steps)]:
            raise ValueError(f"losses: a table of {wrong[0]} figures; there are {len(steps)} timesteps")
        return self

    @property
    def noise_schedule(self) -> NoiseSchedule:
        return self.schedule.tables()

    @property
    def judged(self) -> Losses:
        """Losses of held-out images, else of training images."""
        return self.losses.get("held_out") or self.losses["train"]

    def everywhere(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Figures of the measured timesteps at all of them, [T]: their logarithms linear in λ = ln SNR between.

        Beyond the first and the last one that was measured theirs holds.
        """
        log_snr = self.noise_schedule.snr.log().numpy()
        measured = -log_snr[list(self.timesteps)]
        return np.asarray(np.exp(np.interp(-log_snr, measured, np.log(values))))

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one. Raises UserError in one line where it is missing, damaged or of another form."""
        return validate(cls, read_json(path), path)
