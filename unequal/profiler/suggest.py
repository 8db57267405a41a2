"""Suggestions from a timesteps.json, as text and as figures."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from unequal.errors import UserError
from unequal.profiler import python_form, trainer_flags
from unequal.profiler.document import Timesteps
from unequal.profiler.intervals import redrawn, too_open
from unequal.profiler.sections import PARTS, page, sections
from unequal.profiler.suggestions import MeasuredProfile, Options, Suggestions
from unequal.runtime.files import write_json

#: The command that measures what suggestions follow from; the pipeline's own profiles are of single splits and spaces.
WRITTEN_BY = "`unequal profile MODEL --train IMAGES --out FOLDER` writes FOLDER/timesteps.json"


@dataclass(frozen=True)
class LoadedProfile:
    """A profile and the file that it comes from."""

    document: Timesteps
    file: Path

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a file. Raises UserError in one line where it is missing or damaged, or of another form."""
        if not file.exists():
            raise UserError(f"{file}: no such file; {WRITTEN_BY}")
        if file.is_dir() or file.suffix != ".json":
            raise UserError(f"{file}: is no timesteps.json; {WRITTEN_BY}")
        try:
            return cls(Timesteps.read(file), file)
        except UserError as error:
            raise UserError(str(error) if str(error).startswith(str(file)) else f"{file}: {error}") from None
        except (RuntimeError, MemoryError):
            raise UserError(f"{file}: schedule: too many timesteps to be made") from None

    def suggested(self, asked: Options) -> Suggestions:
        """Suggestions by the profile. Raises UserError, with the file's name, where it lacks what is asked for."""
        document, judged = self.document, self.document.judged
        measured = MeasuredProfile(
            schedule=document.noise_schedule,
            prediction=document.prediction,
            losses=document.everywhere(judged.mean),
            second_moments=document.everywhere(judged.second_moment),
            points=len(document.timesteps),
            replicas=np.array([document.everywhere(one) for one in redrawn(judged.mean, judged.stderr)]),
        )
        try:
            return Suggestions.of(measured, asked)
        except UserError as error:
            raise UserError(f"{self.file}: {error}") from None

    def said(self, found: Suggestions, form: str) -> str:
        """Suggestions as `table`, `python`, or flags for `diffusers` or `kohya`."""
        match form:
            case "python":
                return python_form.python(found, str(self.file)).rstrip()
            case "diffusers" | "kohya":
                return trainer_flags.text(found, form)
        return page(self.head, sections(found))

    @property
    def head(self) -> str:
        """Describe the measurement in a sentence."""
        one, judged = self.document, self.document.judged
        split = "held-out" if "held_out" in one.losses else "training"
        error = max(e / mean for e, mean in zip(judged.stderr, judged.mean, strict=True))
        return (
            f"{self.file}: {one.model} ({one.family}) predicts {one.prediction}; losses of {split} images at "
            f"{len(one.timesteps)} of {one.noise_schedule.timesteps} timesteps, {one.draws} draws at each, standard "
            f"errors up to {error:.1%}. In brackets: 95 % intervals by these errors."
        )

    def write(self, found: Suggestions, path: Path) -> None:
        """Write all figures, reasons and caveats. Raises UserError where that cannot be done."""
        whose = {"model": self.document.model, "prediction": self.document.prediction, "asked": asdict(found.asked)}
        why = zip(PARTS, sections(found), strict=True)
        parts = {
            part: figures(found)[part]
            | {
                "reason": section.reason,
                "caveat": section.caveat,
                "withheld": bool(too_open(found.intervals, part)),
                "intervals": list(map(asdict, found.intervals.get(part, ()))),
            }
            for part, section in why
        }
        try:
            write_json(path, whose | parts)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def figures(found: Suggestions) -> dict[str, dict[str, Any]]:
    """The figures of each suggestion, as JSON can carry them."""
    density = found.density
    named = [{name: getattr(one, name) for name in ("family", "arguments", "distance")} for one in density.nearest]
    borders = [
        {
            "name": one.name,
            "log_snr": one.boundary.log_snr,
            "time_before_shift": one.boundary.time(found.measured.shift),
            "time": one.boundary.time(),
            "timestep": one.timestep,
            "timesteps_at_noise_end": one.timesteps,
            "loss_at_noise_end": one.loss,
        }
        for one in found.borders
    ]
    return {
        "slots": {"ranges": [list(one) for one in found.slots]},
        "density": {
            "kind": density.kind,
            "probabilities": density.probabilities.tolist(),
            "second_moment_over_uniform": density.moment,
            "distance_of_uniform": density.from_uniform,
            "nearest": named,
            "two_levels": asdict(density.two_levels),
        },
        "gamma": asdict(found.gamma),
        "boundary": {"chosen": found.border.name, "borders": borders},
        "steps": {"profile": found.steps, "uniform": found.uniform_steps},
    }
