"""Suggestions as flags of other trainers' scripts: diffusers' examples and kohya's sd-scripts.

What the scripts accept stands in `script_flags.json`, with the day and the commits that were looked at. A phrase is
printed for those scripts alone that accept every one of its flags and values; a line lists what no script accepts.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from unequal.diffusion.schedule import VariancePreserving
from unequal.profiler.intervals import too_open
from unequal.profiler.nearest_density import Nearest
from unequal.profiler.suggestions import Suggestions
from unequal.timesteps.boundary import Boundary

FACTS = Path(__file__).with_name("script_flags.json")
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
        says: what they say, or why there are none.
        flags: with their values.
        scripts: paths in the trainer's repository; none: no script accepts it.
        part: section of the suggestions that the values are of.
    """

    says: str
    flags: Flags = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    part: str = ""

    @property
    def line(self) -> str:
        return " ".join(flag if value is None else f"{flag} {shown(value)}" for flag, value in self.flags.items())


@cache
def facts() -> dict[str, Any]:
    """Facts on scripts: accepted flags, the day on which it was looked up, and the commits."""
    return json.loads(FACTS.read_text(encoding="utf-8"))


def shown(value: str | float) -> str:
    """A value as it is typed."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def allowed(fact: dict[str, Any] | None, value: str | float | None) -> bool:
    """True where a flag is known, and takes a value."""
    if fact is None or not isinstance(value, KINDS[fact["type"]]) or value not in fact.get("choices", [value]):
        return False
    return value is None or isinstance(value, str) or fact.get("lowest", value) <= value <= fact.get("highest", value)


def phrase(trainer: Trainer, families: Sequence[str], says: str, flags: Flags, part: str = "") -> Phrase:
    """Flags with the scripts of these families that accept them."""
    known = [one for one in facts()["accepted"] if one["trainer"] == trainer and one["family"] in families]
    accept = [one for one in known if all(allowed(one["flags"].get(flag), value) for flag, value in flags.items())]
    return Phrase(says, flags, tuple(path for one in accept for path in one["scripts"]), part)


def phrases(found: Suggestions, trainer: Trainer) -> list[Phrase]:
    """All that scripts for this kind of model accept, and a line on the rest."""
    preserving, prediction = found.measured.schedule.preserves_variance, found.measured.prediction
    if prediction not in (known := PREDICTED[preserving]):
        return [
            Phrase(f"scripts on such a schedule train {' or '.join(known)}, and this network predicts {prediction}")
        ]
    by_kind = {
        ("diffusers", True): diffusers_sd,
        ("diffusers", False): diffusers_flow,
        ("kohya", True): kohya_sd,
        ("kohya", False): kohya_flow,
    }
    slots = Phrase("slots: no script draws by slots; use `--as python`", part="slots")
    return [slots, *by_kind[trainer, preserving](found), steps(found)]


def diffusers_sd(found: Suggestions) -> list[Phrase]:
    """Flags for models that preserve variance, by diffusers' examples."""
    common, two = {"--prediction_type": found.measured.prediction}, found.density.two_levels
    gamma = {"--snr_gamma": found.gamma.gamma}
    bias: Flags = {
        "--timestep_bias_strategy": "range",
        "--timestep_bias_begin": 0,
        "--timestep_bias_end": two.border,
        "--timestep_bias_multiplier": two.multiplier,
    }
    return [
        phrase("diffusers", ["sd", "sdxl"], "Min-SNR", {**common, **gamma}, "gamma"),
        phrase("diffusers", ["dreambooth"], "Min-SNR", {**gamma}, "gamma"),
        phrase(
            "diffusers",
            ["sdxl"],
            f"density, as two levels ({two.distance:.0%} of draws elsewhere), not weighted back",
            bias,
            "density",
        ),
        Phrase("boundary: no script keeps to a range of timesteps", part="boundary"),
    ]


def diffusers_flow(found: Suggestions) -> list[Phrase]:
    """Flags for flows, by diffusers' examples, which count times from the noise end: the mean has the other sign."""
    normal, *_ = found.density.nearest
    flags: Flags = {
        "--weighting_scheme": "logit_normal",
        "--logit_mean": -normal.arguments["mean"],
        "--logit_std": normal.arguments["std"],
    }
    says = f"density, {near(normal)}, for a scheduler with a shift of {found.measured.shift:.3g}"
    return [
        phrase(
            "diffusers", ["sd3"], f"{says}; errors of the velocity", {**flags, "--precondition_outputs": 0}, "density"
        ),
        phrase("diffusers", ["flux"], says, flags, "density"),
        Phrase("density, as shift or Beta: no flag; a shift is the scheduler's, in the model's folder", part="density"),
        Phrase("Min-SNR: no script for flows has it", part="gamma"),
        Phrase("boundary: no script keeps to a range of timesteps", part="boundary"),
    ]


def kohya_sd(found: Suggestions) -> list[Phrase]:
    """Flags for models that preserve variance, by sd-scripts, which train on a schedule of their own."""
    first = found.border.boundary.timestep(schedule_of_sd_scripts())
    common: Flags = {"--v_parameterization": None} if found.measured.prediction == "v_prediction" else {}
    return [
        phrase("kohya", ["sd"], "Min-SNR", {**common, "--min_snr_gamma": found.gamma.gamma}, "gamma"),
        Phrase("density: no flag of these scripts but a range, of uniform timesteps", part="density"),
        *kohya_experts("sd", first, "index of the scripts' own schedule, scaled_linear 0.00085 … 0.012"),
    ]


def kohya_flow(found: Suggestions) -> list[Phrase]:
    """Flags for flows, by sd-scripts, in s after all shifts."""
    k, (normal, shifted, _) = found.measured.shift, found.density.nearest
    mean, std, shift = normal.arguments["mean"] + math.log(k), normal.arguments["std"], shifted.arguments["shift"] * k
    logit_normal: Flags = {"--weighting_scheme": "logit_normal", "--logit_mean": mean, "--logit_std": std}
    sigmoid: Flags = {"--timestep_sampling": "shift", "--sigmoid_scale": std, "--discrete_flow_shift": math.exp(mean)}
    uniform: Flags = {"--weighting_scheme": "uniform"}
    by_shift: Flags = {"--timestep_sampling": "sigma", **uniform, "--discrete_flow_shift": shift}
    raw: Flags = {"--model_prediction_type": "raw"}
    x0 = "errors of x0, as these scripts train"
    return [
        phrase(
            "kohya", ["sd3"], f"density, {near(normal)}; {x0}", {**logit_normal, "--training_shift": 1.0}, "density"
        ),
        phrase("kohya", ["sd3"], f"or {near(shifted)}; {x0}", {**uniform, "--training_shift": shift}, "density"),
        phrase("kohya", ["flux"], f"density, {near(normal)}", {**sigmoid, **raw}, "density"),
        phrase("kohya", ["flux"], f"or {near(shifted)}", {**by_shift, **raw}, "density"),
        Phrase("density, as Beta: no flag", part="density"),
        Phrase("Min-SNR: these scripts read --min_snr_gamma and pass it over for flows", part="gamma"),
        *kohya_experts("sd3", round(1000 * found.border.boundary.time()), "1000·s, after the shift"),
    ]


def kohya_experts(family: str, first: int, what: str) -> list[Phrase]:
    """Two trainings, each on its side of a border."""
    sides = {"noise": (first, 1000), "data": (0, first)}
    return [
        phrase(
            "kohya",
            [family],
            f"boundary, expert at the {side} end ({what})",
            {"--min_timestep": low, "--max_timestep": high},
            "boundary",
        )
        for side, (low, high) in sides.items()
    ]


def steps(found: Suggestions) -> Phrase:
    """Sampling is no matter of training scripts."""
    if found.measured.schedule.preserves_variance:
        return Phrase(f"sampling steps: of a pipeline that takes them, timesteps={found.steps}", part="steps")
    schedule, k = found.measured.schedule, found.measured.shift
    # The scheduler shifts what it is given.
    times = [round(Boundary.at_timestep(step, schedule).time(k), 4) for step in found.steps]
    return Phrase(f"sampling steps: of a pipeline whose scheduler has a shift of {k:.3g}, sigmas={times}", part="steps")


def near(one: Nearest) -> str:
    """Name of a density, and its distance."""
    return f"as {one.family} ({one.distance:.0%} of draws elsewhere), not weighted back"


@cache
def schedule_of_sd_scripts() -> VariancePreserving:
    """By which sd-scripts count the timesteps of models that preserve variance, whatever the model came with."""
    roots = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64)
    return VariancePreserving("sd-scripts", roots**2)


def text(found: Suggestions, trainer: Trainer) -> str:
    """All phrases as shell comments and flags; a line names each section that the errors do not carry."""
    source = facts()["sources"][trainer]
    head = (
        f"# Checked against {source['repository']} of {source['of']} ({source['commit'][:7]}), "
        f"looked at on {facts()['looked_at']}."
    )
    known = phrases(found, trainer)
    reasons = {one.part: too_open(found.intervals, one.part) for one in known}
    gone = [f"\n# {part}: withheld: {why}" for part, why in reasons.items() if why]
    return "\n".join([head, *gone, *(shell(one) for one in known if not reasons[one.part])])


def shell(one: Phrase) -> str:
    """A phrase as comments and a line of flags; no script for it: comments alone."""
    if not one.flags:
        return f"\n# {one.says}"
    if not one.scripts:
        return f"\n# {one.says}: no script accepts it"
    return "\n".join([f"\n# {one.says}", *(f"#   {path}" for path in one.scripts), one.line])
