"""Suggestions as flags of other trainers' scripts: diffusers' examples and kohya's sd-scripts.

What the scripts accept stands in `script_flags.json`, with the day and the commits that were looked at. A phrase is
printed for those scripts alone that accept every one of its flags and values; a line lists what no script accepts.
"""

import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from unequal.diffusion.schedule import VariancePreserving
from unequal.profiler.nearest_density import Nearest
from unequal.profiler.suggestions import Suggestions
from unequal.timesteps.boundary import Boundary

Trainer = Literal["diffusers", "kohya"]
#: Predictions of the scripts, for schedules that preserve variance and for flows.
PREDICTED = {True: ("epsilon", "v_prediction"), False: ("velocity",)}
#: A flag's type in the facts → those of its values.
KINDS: dict[str, tuple[type, ...]] = {"switch": (type(None),), "int": (int,), "float": (int, float), "str": (str,)}
#: A flag and its value; None: a switch.
Flags = dict[str, str | float | int | None]


@dataclass(frozen=True)
class Phrase:
    """Flags for some scripts.

    Attributes:
        part: name of the suggestion that the values are of.
        says: what they say, or why there are none.
        flags: with their values.
        scripts: paths in the trainer's repository; none: no script accepts it.
    """

    part: str
    says: str
    flags: Flags = field(default_factory=dict)
    scripts: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Flags as they are typed."""
        values = ((flag, f"{v:.3g}" if isinstance(v, float) else v) for flag, v in self.flags.items())
        return " ".join(flag if value is None else f"{flag} {value}" for flag, value in values)

    def __str__(self) -> str:
        if self.flags and not self.scripts:
            return f"\n# {self.says}: no script accepts it"
        return "\n".join(
            [f"\n# {self.says}", *(f"#   {path}" for path in self.scripts), *([self.line] * bool(self.flags))]
        )


@cache
def facts() -> dict[str, Any]:
    """Facts on scripts: accepted flags, the day on which it was looked up, and the commits."""
    return json.loads(Path(__file__).with_name("script_flags.json").read_text(encoding="utf-8"))


def allowed(fact: dict[str, Any] | None, value: str | float | None) -> bool:
    """True where a flag is known, and takes a value."""
    if fact is None or not isinstance(value, KINDS[fact["type"]]) or value not in fact.get("choices", [value]):
        return False
    return value is None or isinstance(value, str) or fact.get("lowest", value) <= value <= fact.get("highest", value)


def phrase(trainer: Trainer, families: str, part: str, says: str, flags: Flags) -> Phrase:
    """Flags with the scripts of these families that accept them."""
    known = [each for each in facts()["accepted"] if each["trainer"] == trainer and each["family"] in families.split()]
    accept = [each for each in known if all(allowed(each["flags"].get(flag), value) for flag, value in flags.items())]
    return Phrase(part, says, flags, tuple(path for each in accept for path in each["scripts"]))


def phrases(suggestions: Suggestions, trainer: Trainer) -> list[Phrase]:
    """All that scripts for this kind of model accept, and a line on the rest."""
    preserving, prediction = suggestions.measured.schedule.preserves_variance, suggestions.measured.prediction
    if prediction not in (known := PREDICTED[preserving]):
        why = f"scripts on such a schedule train {' or '.join(known)}, and this network predicts {prediction}"
        return [Phrase("", why)]
    by_kind = {"diffusers": (diffusers_flow, diffusers_sd), "kohya": (kohya_flow, kohya_sd)}
    slots = Phrase("slots", "slots: no script draws by slots; use `--as python`")
    return [slots, *by_kind[trainer][preserving](suggestions), steps(suggestions)]


def diffusers_sd(suggestions: Suggestions) -> list[Phrase]:
    """Flags for models that preserve variance, by diffusers' examples."""
    two = suggestions.density.value.two_levels
    gamma: Flags = {"--snr_gamma": suggestions.gamma.value.gamma}
    bias: Flags = {
        "--timestep_bias_strategy": "range",
        "--timestep_bias_begin": 0,
        "--timestep_bias_end": two.border,
        "--timestep_bias_multiplier": two.multiplier,
    }
    says = f"density, as two levels ({two.distance:.0%} of draws elsewhere), not weighted back"
    predicted = {"--prediction_type": suggestions.measured.prediction, **gamma}
    return [
        phrase("diffusers", "sd sdxl", "gamma", "Min-SNR", predicted),
        phrase("diffusers", "dreambooth", "gamma", "Min-SNR", gamma),
        phrase("diffusers", "sdxl", "density", says, bias),
        Phrase("boundary", "boundary: no script keeps to a range of timesteps"),
    ]


def diffusers_flow(suggestions: Suggestions) -> list[Phrase]:
    """Flags for flows, by diffusers' examples, which count times from the noise end: the mean has the other sign."""
    normal, *_ = suggestions.density.value.nearest
    flags: Flags = {
        "--weighting_scheme": "logit_normal",
        "--logit_mean": -normal.arguments["mean"],
        "--logit_std": normal.arguments["std"],
    }
    says = f"density, {near(normal)}, for a scheduler with a shift of {suggestions.measured.shift:.3g}"
    of_velocity: Flags = {**flags, "--precondition_outputs": 0}
    return [
        phrase("diffusers", "sd3", "density", f"{says}; errors of the velocity", of_velocity),
        phrase("diffusers", "flux", "density", says, flags),
        Phrase("density", "density, as shift or Beta: no flag; a shift is the scheduler's, in the model's folder"),
        Phrase("gamma", "Min-SNR: no script for flows has it"),
        Phrase("boundary", "boundary: no script keeps to a range of timesteps"),
    ]


def kohya_sd(suggestions: Suggestions) -> list[Phrase]:
    """Flags for models that preserve variance, by sd-scripts, which train on a schedule of their own."""
    gamma: Flags = {"--min_snr_gamma": suggestions.gamma.value.gamma}
    if suggestions.measured.prediction == "v_prediction":
        gamma = {"--v_parameterization": None, **gamma}
    first = suggestions.boundary.value.boundary.timestep(schedule_of_sd_scripts())
    return [
        phrase("kohya", "sd", "gamma", "Min-SNR", gamma),
        Phrase("density", "density: no flag of these scripts but a range, of uniform timesteps"),
        *kohya_experts("sd", first, "index of the scripts' own schedule, scaled_linear 0.00085 … 0.012"),
    ]


def kohya_flow(suggestions: Suggestions) -> list[Phrase]:
    """Flags for flows, by sd-scripts, in s after all shifts."""
    k, (normal, shifted, _) = suggestions.measured.shift, suggestions.density.value.nearest
    mean, std, shift = normal.arguments["mean"] + math.log(k), normal.arguments["std"], shifted.arguments["shift"] * k
    normal_sd3: Flags = {"--weighting_scheme": "logit_normal", "--logit_mean": mean, "--logit_std": std}
    normal_flux: Flags = {
        "--timestep_sampling": "shift",
        "--sigmoid_scale": std,
        "--discrete_flow_shift": math.exp(mean),
    }
    even: Flags = {"--weighting_scheme": "uniform"}
    shifted_flux: Flags = {"--timestep_sampling": "sigma", **even, "--discrete_flow_shift": shift}
    raw: Flags = {"--model_prediction_type": "raw"}
    x0 = "errors of x0, as these scripts train"
    return [
        phrase("kohya", "sd3", "density", f"density, {near(normal)}; {x0}", {**normal_sd3, "--training_shift": 1.0}),
        phrase("kohya", "sd3", "density", f"or {near(shifted)}; {x0}", {**even, "--training_shift": shift}),
        phrase("kohya", "flux", "density", f"density, {near(normal)}", normal_flux | raw),
        phrase("kohya", "flux", "density", f"or {near(shifted)}", shifted_flux | raw),
        Phrase("density", "density, as Beta: no flag"),
        Phrase("gamma", "Min-SNR: these scripts read --min_snr_gamma and pass it over for flows"),
        *kohya_experts("sd3", round(1000 * suggestions.boundary.value.boundary.time()), "1000·s, after the shift"),
    ]


def kohya_experts(family: str, first: int, what: str) -> list[Phrase]:
    """Two trainings, each on its side of a border."""
    says = "boundary, expert at the {} end ({})"
    return [
        phrase("kohya", family, "boundary", says.format(side, what), {"--min_timestep": low, "--max_timestep": high})
        for side, low, high in (("noise", first, 1000), ("data", 0, first))
    ]


def steps(suggestions: Suggestions) -> Phrase:
    """Sampling is no matter of training scripts."""
    schedule, k, timesteps = suggestions.measured.schedule, suggestions.measured.shift, suggestions.steps.value
    if schedule.preserves_variance:
        return Phrase("steps", f"sampling steps: of a pipeline that takes them, timesteps={timesteps}")
    # The scheduler shifts what it is given.
    times = [round(Boundary.at_timestep(step, schedule).time(k), 4) for step in timesteps]
    return Phrase("steps", f"sampling steps: of a pipeline whose scheduler has a shift of {k:.3g}, sigmas={times}")


def near(density: Nearest) -> str:
    """Name of a density, and its distance."""
    return f"as {density.family} ({density.distance:.0%} of draws elsewhere), not weighted back"


@cache
def schedule_of_sd_scripts() -> VariancePreserving:
    """By which sd-scripts count the timesteps of models that preserve variance, whatever the model came with."""
    roots = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64)
    return VariancePreserving("sd-scripts", roots**2)


def text(suggestions: Suggestions, trainer: Trainer) -> str:
    """All phrases as shell comments and flags; a line names each suggestion that the errors do not carry."""
    source = facts()["sources"][trainer]
    head = (
        f"# Checked against {source['repository']} of {source['of']} ({source['commit'][:7]}), "
        f"looked at on {facts()['looked_at']}."
    )
    withheld = {name: part.withheld for name, part in suggestions.parts.items() if part.withheld}
    gone = [f"\n# {name}: withheld: {why}" for name, why in withheld.items()]
    known = [str(each) for each in phrases(suggestions, trainer) if each.part not in withheld]
    return "\n".join([head, *gone, *known])
