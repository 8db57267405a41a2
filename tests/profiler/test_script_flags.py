"""Flags for other trainers' scripts: each is accepted, and means there what is suggested."""

import argparse
import math
import re
import shlex
from functools import cache
from typing import Any

import numpy as np
import pytest
from profiled import FLOW, LINEAR, gaussian, measured

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.profiler.suggestion import Options
from unequal.profiler.suggestions import Suggestions
from unequal.profiler.trainer_flags import Phrase, Trainer, facts, phrases, schedule_of_sd_scripts
from unequal.timesteps.densities import edges_of, expit, logit, normal_cdf

TYPES = {"float": float, "int": int, "str": str}
CASES: list[tuple[Trainer, NoiseSchedule, Prediction]] = [
    ("diffusers", LINEAR, "epsilon"),
    ("diffusers", LINEAR, "v_prediction"),
    ("diffusers", FLOW, "velocity"),
    ("kohya", LINEAR, "epsilon"),
    ("kohya", LINEAR, "v_prediction"),
    ("kohya", FLOW, "velocity"),
]


@cache
def suggested(schedule: NoiseSchedule, prediction: Prediction) -> Suggestions:
    return Suggestions.of(measured(schedule, gaussian(schedule), prediction), Options())


def parser_of(path: str, trainer: Trainer) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    (known,) = [one for one in facts()["accepted"] if one["trainer"] == trainer and path in one["scripts"]]
    for flag, fact in known["flags"].items():
        if fact["type"] == "switch":
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=TYPES[fact["type"]], choices=fact.get("choices"))
    return parser


def parsed(one: Phrase, trainer: Trainer) -> dict[str, Any]:
    return vars(parser_of(one.scripts[0], trainer).parse_args(shlex.split(one.line)))


def one_with(found: list[Phrase], flag: str, script: str) -> Phrase:
    return next(one for one in found if flag in one.flags and any(script in path for path in one.scripts))


@pytest.mark.parametrize(("trainer", "schedule", "prediction"), CASES)
def test_every_flag_is_accepted_by_every_script_it_is_printed_for(trainer, schedule, prediction):
    """And every script trains models of this kind."""
    kinds = {path: one["kind"] for one in facts()["accepted"] if one["trainer"] == trainer for path in one["scripts"]}
    found = phrases(suggested(schedule, prediction), trainer)
    assert any(one.flags for one in found)
    for one in found:
        assert one.scripts or not one.flags, one.says
        for path in one.scripts:
            assert kinds[path] == ("variance_preserving" if schedule.preserves_variance else "flow")
            if one.flags:
                parser_of(path, trainer).parse_args(shlex.split(one.line))


def test_the_mean_of_diffusers_counts_from_the_noise_end():
    """u = sigmoid(N(m, d²)) is drawn, and the (u·T)-th timestep from the noise end is trained."""
    found = suggested(FLOW, "velocity")
    flags = parsed(one_with(phrases(found, "diffusers"), "--logit_mean", "flux"), "diffusers")
    below = normal_cdf((logit(np.arange(1001) / 1000) - flags["logit_mean"]) / flags["logit_std"])
    drawn = np.diff(below)[::-1]
    assert drawn == pytest.approx(found.density.value.nearest[0].probabilities, abs=2e-5)


def test_sd_scripts_draw_the_suggested_times_of_sd3_and_flux():
    """Both pass s after all shifts: sigmoid(N(m, d²)), or sigmoid(d·z) shifted by k."""
    found = suggested(FLOW, "velocity")
    cells = np.cumsum(found.density.value.nearest[0].probabilities)[:-1]
    edges = expit(-edges_of(FLOW, "open").log_snr / 2)[1:-1]
    sd3 = parsed(one_with(phrases(found, "kohya"), "--logit_mean", "sd3"), "kohya")
    assert normal_cdf((logit(edges) - sd3["logit_mean"]) / sd3["logit_std"]) == pytest.approx(cells, abs=1e-3)
    flux = parsed(one_with(phrases(found, "kohya"), "--sigmoid_scale", "flux"), "kohya")
    k = flux["discrete_flow_shift"]
    unshifted = edges / (k - (k - 1) * edges)
    assert normal_cdf(logit(unshifted) / flux["sigmoid_scale"]) == pytest.approx(cells, abs=1e-3)


def test_a_shift_is_the_whole_one():
    found = suggested(FLOW, "velocity")
    flags = parsed(one_with(phrases(found, "kohya"), "--training_shift", "sd3"), "kohya")
    assert flags["training_shift"] == 1  # beside a logit-normal
    by_shift = next(one for one in phrases(found, "kohya") if one.flags.get("--weighting_scheme") == "uniform")
    assert parsed(by_shift, "kohya")["training_shift"] == pytest.approx(
        3 * found.density.value.nearest[1].arguments["shift"], rel=5e-3
    )


def test_experts_of_sd_scripts_meet_at_the_same_log_snr_on_their_schedule():
    found = suggested(LINEAR, "epsilon")
    noise, data = [one for one in phrases(found, "kohya") if "--min_timestep" in one.flags]
    first, log_snr = noise.flags["--min_timestep"], schedule_of_sd_scripts().snr.log()
    assert isinstance(first, int) and data.flags == {"--min_timestep": 0, "--max_timestep": first}
    assert log_snr[first] <= found.boundary.value.boundary.log_snr < log_snr[first - 1]
    assert noise.flags["--max_timestep"] == 1000


def test_two_levels_of_diffusers_are_those_of_its_weights():
    found = suggested(LINEAR, "epsilon")
    flags = parsed(one_with(phrases(found, "diffusers"), "--timestep_bias_end", "sdxl"), "diffusers")
    weights = np.ones(1000)
    weights[flags["timestep_bias_begin"] : flags["timestep_bias_end"]] *= flags["timestep_bias_multiplier"]
    distance = np.abs(weights / weights.sum() - found.density.value.probabilities).sum() / 2
    assert distance == pytest.approx(found.density.value.two_levels.distance, abs=1e-4)


def test_times_for_a_pipeline_are_those_before_the_shift():
    line = phrases(suggested(FLOW, "velocity"), "diffusers")[-1].says
    times = [float(one) for one in re.findall(r"\d\.\d+", line.partition("sigmas=")[2])]
    shifted = [3 * s / (1 + 2 * s) for s in times]
    assert shifted == pytest.approx([float(FLOW.sigma[t]) for t in suggested(FLOW, "velocity").steps.value], abs=3e-4)


@pytest.mark.parametrize("trainer", ["diffusers", "kohya"])
@pytest.mark.parametrize(("schedule", "prediction"), [(LINEAR, "sample"), (Flow(1000), "epsilon")])
def test_nothing_is_printed_for_what_no_script_trains(trainer, schedule, prediction):
    (only,) = phrases(suggested(schedule, prediction), trainer)
    assert not only.flags and f"this network predicts {prediction}" in only.says


def test_the_schedule_of_sd_scripts_is_stable_diffusions():
    """ᾱ at the last timestep is 0.0047 (2305.08891, table 1)."""
    assert math.isclose(float(schedule_of_sd_scripts().alphas_cumprod[-1]), 0.00466, rel_tol=1e-3)
