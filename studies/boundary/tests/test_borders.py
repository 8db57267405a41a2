"""Boundaries in all their units, by published figures; and settings that make no sweep are refused in a line."""

import csv
import re
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

from studies.boundary.borders import borders, loss_shares, planned, published, steps_of
from studies.boundary.first import First
from studies.boundary.params import Params
from studies.boundary.stages import name_first, report_boundary
from unequal.comparison.results import read_found
from unequal.comparison.settings import shortened_plan
from unequal.errors import UserError
from unequal.files import read_json, write_json
from unequal.settings.evaluation import Sampling
from unequal.settings.schedule import FlowSchedule

STUDY = Path(__file__).parents[1] / "params.yaml"
ENDPOINTS = ("loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr", "fid")
CURVE = {"timesteps": [1000], "first": [0, 100, 250], "loss": [4.0, 1.0, 1.0]}


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
        ({"confirmation.seeds": [0, 200]}, "confirmation.seeds: 0 is a block of the study or of its pilot; allowed:"),
        (
            {"blocks.endpoints": {"loss_over_timesteps": 0.01}, "effects": {}},
            "confirmation.by: 'fid' is not judged; there is: loss_over_timesteps",
        ),
    ],
)
def test_what_makes_no_sweep_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
    assert "\n" not in str(refusal.value)


def test_each_boundary_differs_from_its_control_in_one_thing() -> None:
    params = Params.read(STUDY)
    assert isinstance(params.schedule, FlowSchedule)
    told = borders(params.plans, params.schedule, steps_of(params.sampling, params.schedule))
    names = [one.name for one in told if not one.by_timesteps]
    against = {arm: one.control for arm, one in planned(told, params.blocks).items()}
    assert against == dict.fromkeys(names, "joint") | {f"{name}_by_timesteps": name for name in names}
    others = [one.arms for one in params.blocks.compared if one not in planned(told, params.blocks).values()]
    assert others == [("middle", "interleaved"), ("middle_by_timesteps", "joint")]
    assert len(params.blocks.compared) == 14


@pytest.fixture
def trained(project: Path) -> Path:
    """Trainings of all arms; in FID, images by timesteps are 10 % worse than as many each, which are 5 % better.

    The boundary at λ = 0 is 10 % better; on fresh bases it is half of that.
    """
    settings = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    names = ("subject", "blocks", "effects", "schedule", "sampling", "plans", "pilot", "confirmation")
    write_params(**{name: settings[name] for name in names})
    generator = np.random.default_rng(0)
    two = {name for name, plan in settings["plans"].items() if plan["groups"]["kind"] == "boundary"}
    for arm in settings["blocks"]["arms"]:
        level = (-0.05 if arm in two else 0.0) + (0.1 if arm.endswith("_by_timesteps") else 0.0)
        level = -0.1 if arm == "middle" else level
        for block in settings["blocks"]["seeds"]:
            made = training(arm, block, level, generator)
            write_json(project / f"results/endpoints/{arm}/block_{block}.json", made)
            groups = [(0, 249), (250, 999)] if arm in two else [(0, 999)]
            figures = [
                {"first": a, "last": b, "stride": 1, "images_seen": 80, "inherited_images_inside": 20}
                for a, b in groups
            ]
            write_json(project / f"results/trainings/{arm}/block_{block}.json", {"images": 200, "groups": figures})
    for block in settings["confirmation"]["seeds"]:
        pair = {"first": training("middle", block, -0.05, generator), "control": training("joint", block, 0, generator)}
        write_json(project / f"results/again/block_{block}.json", pair)
    write_pilot(project / "results", *settings["blocks"]["endpoints"])
    assert CliRunner().invoke(name_first.main, []).exit_code == 0
    return project


def training(arm: str, block: int, level: float, generator: np.random.Generator) -> dict[str, Any]:
    """What is measured of one whose endpoints are e to the level, but for some noise."""
    told = {one: float(np.exp(level + 0.001 * generator.normal())) for one in ENDPOINTS}
    costs = dict.fromkeys(("images", "training_flops", "sampling_flops", "parameters"), 200)
    made = {"arm": arm, "block": block, "made_by": arm, "endpoints": told, "scores": {}, "costs": costs}
    return made | {"curve": CURVE, "conditions": {"data": "made-up images"}}


def test_what_comes_first_by_fid_is_carried_out_again_as_it_was(trained: Path) -> None:
    params, named = Params.read(STUDY), First.load(trained / "results/first.json")
    assert named.arms == {"first": "middle", "control": "joint"}
    for one in (named.first, named.control):
        assert one.plan == shortened_plan(params.plans[one.arm], 1.0, params.pilot.tried(one.arm))
        assert one.plan.recipe.optimizer.lr == params.pilot.tried(one.arm).lr


def test_shares_of_losses_are_those_of_the_curve(trained: Path) -> None:
    params = Params.read(STUDY)
    found, schedule = read_found(trained / "results/endpoints", params.blocks), params.schedule.tables()
    # Of a curve that is level over 100 timesteps and a quarter as high after them.
    over_timesteps, over_log_snr = loss_shares(found, schedule, 250)
    assert over_timesteps == pytest.approx(750 / (4 * 100 + 900))
    log_snr = schedule.snr.log().numpy()
    heights = np.where(np.arange(1000) < 100, 4.0, 1.0)
    # The trapezoidal rule by hand.
    pieces = -np.diff(log_snr) * (heights[1:] + heights[:-1]) / 2
    assert over_log_snr == pytest.approx(pieces[250:].sum() / pieces.sum(), rel=0.01)
    assert loss_shares(found, schedule, 0) == pytest.approx((1, 1))


def test_the_page_tells_every_boundary_and_marks_published_ones(trained: Path) -> None:
    result = CliRunner().invoke(report_boundary.main, [])
    assert result.exit_code == 0, result.output
    page = (trained / "results/report.html").read_text(encoding="utf-8")
    assert uneven_tables(page) == []
    assert all(one in page for one in ("wan text by timesteps", "Wan 2.2, image to video", "−4.394", "−16.90"))
    assert (trained / "results/pictures/boundaries.png").exists()
    assert len((trained / "results/borders.csv").read_text().splitlines()) == 13
    # Each row is of its own comparison: with the joint model, and with the same boundary.
    cells = {row[0]: row[1:] for row in re.findall(r"<td>([^<]*)</td>" * 16, page)}
    assert cells["wan text"][-5] == "joint" and re.fullmatch("−4.9. %: better", cells["wan text"][-1])
    assert cells["wan text by timesteps"][-5] == "wan text"
    assert re.fullmatch("\\+10.. %: worse", cells["wan text by timesteps"][-1])
    # And each expert inside its own range, beside the joint model.
    assert "Experts, group by group" in page
    with (trained / "results/groups.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 12
    assert {(row["first"], row["last"]) for row in rows} == {("0", "249"), ("250", "999")}
    assert "With a shift of 3, little of the losses" in page
    # What fresh bases say is what they show, and not what the sweep did.
    assert "On fresh seeds: middle against joint" in page
    confirmed = read_json(trained / "results/findings.json")["confirmed"]["fid"]
    assert (confirmed["word"], confirmed["change"]) == ("the same", pytest.approx(np.expm1(-0.05), abs=0.003))
