"""Boundaries in all their units, by published figures; and settings that make no sweep are refused in a line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from html_tables import uneven_tables
from params_files import edited
from piloted import write_pilot
from stage_project import write_params

from studies.boundary.borders import borders, published, steps_of
from studies.boundary.params import Params
from studies.boundary.stages import report_boundary
from unequal.errors import UserError
from unequal.files import write_json
from unequal.settings.evaluation import Sampling
from unequal.settings.schedule import FlowSchedule

STUDY = Path(__file__).parents[1] / "params.yaml"


@pytest.mark.parametrize(
    ("shift", "which", "shifted", "unshifted", "decibels"),
    [(12.0, 0, 0.875, 0.368, -16.90), (5.0, 1, 0.9, 0.643, -19.08)],
)
def test_published_boundaries_on_their_own_schedules(
    shift: float, which: int, shifted: float, unshifted: float, decibels: float
) -> None:
    schedule = FlowSchedule(name="flow", timesteps=1000, shift=shift)
    steps = steps_of(Sampling(steps=40, spacing="uniform", eta=0.0, clip=True, batch_size=8), schedule)
    one = published(schedule, steps)[which]
    assert one.shifted == pytest.approx(shifted)
    assert one.unshifted == pytest.approx(unshifted, abs=5e-4)
    assert one.decibels == pytest.approx(decibels, abs=5e-3)
    # Uniform steps are as often above the boundary as uniform times are before they are shifted.
    assert one.noise_steps == pytest.approx(1 - unshifted, abs=1 / 40)
    assert one.noise_mass == pytest.approx(1 - unshifted, abs=2e-3)


def test_the_sweep_holds_each_boundary_with_both_ways_of_giving_out_images() -> None:
    params = Params.read(STUDY)
    assert isinstance(params.schedule, FlowSchedule)
    found = borders(params.plans, params.schedule, steps_of(params.sampling, params.schedule))
    each = [one.log_snr for one in found if not one.by_timesteps]
    assert each == [one.log_snr for one in found if one.by_timesteps] == [4.0, 2.0, 0.0, -2.0, -3.892, -4.394]
    assert [one.timestep for one in found] == sorted(one.timestep for one in found)
    assert {one.name for one in found} == set(params.plans) - {"joint", "joint_again", "interleaved"}


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"schedule": {"name": "linear", "timesteps": 1000}}, "schedule.name: 'linear'; boundaries are told in times"),
        (
            {"plans.middle.groups.log_snr": 50.0},
            "plans.middle: a boundary at λ = 50.000 leaves one expert without a timestep of schedule 'flow'",
        ),
    ],
)
def test_what_makes_no_sweep_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
    assert "\n" not in str(refusal.value)


def test_the_page_tells_every_boundary_and_marks_published_ones(project: Path) -> None:
    settings = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    write_params(**{name: settings[name] for name in ("subject", "blocks", "effects", "schedule", "sampling", "plans")})
    generator = np.random.default_rng(0)
    for arm in settings["blocks"]["arms"]:
        for block in settings["blocks"]["seeds"]:
            told = {one: float(np.exp(0.01 * generator.normal())) for one in settings["blocks"]["endpoints"]}
            costs = dict.fromkeys(("images", "training_flops", "sampling_flops", "parameters"), 200)
            curve = {"timesteps": [1000], "first": [0, 500], "loss": [1.0, 1.0]}
            made = {"arm": arm, "block": block, "made_by": arm, "endpoints": told, "scores": {}, "costs": costs}
            more = {"curve": curve, "conditions": {"data": "made-up images"}}
            write_json(project / f"results/endpoints/{arm}/block_{block}.json", made | more)
    write_pilot(project / "results", *settings["blocks"]["endpoints"])
    result = CliRunner().invoke(report_boundary.main, [])
    assert result.exit_code == 0, result.output
    page = (project / "results/report.html").read_text(encoding="utf-8")
    assert uneven_tables(page) == []
    assert all(one in page for one in ("wan text by timesteps", "Wan 2.2, image to video", "−4.394", "−16.90"))
    assert (project / "results/pictures/boundaries.png").exists()
    assert len((project / "results/borders.csv").read_text().splitlines()) == 13
