"""Statements of a race from its results: sentence, bet, worth, recipe, flags, and the edit of a params file."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure

from unequal.cli.editing import edited, in_a_line, in_lines
from unequal.data.prepared import PreparedData
from unequal.errors import Diverged
from unequal.race.bracket import measured
from unequal.race.findings import Standing, findings, recipe_document
from unequal.race.flags import script_flags
from unequal.race.page import facts as page_facts
from unequal.race.page import next_commands
from unequal.race.params import RaceParams
from unequal.race.pictures import samples
from unequal.race.showing import lines
from unequal.race.standing import Candidate
from unequal.race.training import with_measured_slots
from unequal.runtime.files import write_json
from unequal.settings.race import Race
from unequal.settings.recipe import RangeRecipe, Recipe
from unequal.settings.schedule import BetaSchedule, FlowSchedule
from unequal.settings.strict import read_yaml, validate
from unequal.timesteps.partition import Partition

TINY = Path(__file__).parent / "tiny/params.yaml"
UNIFORM, MIN_SNR = Candidate("uniform", 1.0), Candidate("min_snr", 2.0)
BETAS, FLOW = BetaSchedule(name="linear", timesteps=50), FlowSchedule(name="flow", timesteps=50)


def tiny(**edits: Any) -> Race:
    """The tiny race, with other settings."""
    document = read_yaml(TINY)
    document["race"] |= edits
    race = validate(RaceParams, document, TINY).race
    assert race is not None
    return race


def standing(*fresh: float, whole: float = -0.3, race: Race | None = None) -> Standing:
    """A race in which Min-SNR leads the whole trainings by a difference, with differences in fresh blocks."""
    short = {UNIFORM: {100: math.log(40.0)}, MIN_SNR: {100: math.log(40.0) - 0.1}}
    first = {UNIFORM: {0: math.log(20.0)}, MIN_SNR: {0: math.log(20.0) + whole + 0.01}}
    finals = {UNIFORM: {1: math.log(20.0)}, MIN_SNR: {1: math.log(20.0) + whole - 0.01}}
    done: dict[str, Any] = {"short": short, "whole": first, "finals": finals}
    if fresh:
        blocks = range(200, 200 + len(fresh))
        done["confirm"] = {
            MIN_SNR: {block: 3.0 + one for block, one in zip(blocks, fresh, strict=True)},
            UNIFORM: dict.fromkeys(blocks, 3.0),
        }
    return Standing(race or tiny(), done, bool(fresh), {}, "ddim", Partition([(0, 4), (5, 19), (20, 49)]))


@pytest.mark.parametrize(
    ("fresh", "sentence"),
    [
        ((), "Min-SNR at 2 × its learning rate leads the whole trainings; fresh seeds have not spoken yet."),
        (
            (-0.3, -0.31),
            "Min-SNR at 2 × its learning rate is shown to be better than uniform: "
            "FID is 26.3 % lower on 2 fresh seeds.",
        ),
        (
            (0.3, 0.31),
            "Min-SNR at 2 × its learning rate won the race but is worse on 2 fresh seeds; stay with uniform.",
        ),
        ((0.0, 0.001), "Min-SNR at 2 × its learning rate and uniform are the same within 5 %."),
    ],
)
def test_the_sentence_says_what_fresh_seeds_say(fresh: tuple[float, ...], sentence: str) -> None:
    assert findings(standing(*fresh))["sentence"] == sentence


def test_the_bet_changes_where_all_that_is_known_speaks_against_the_winner() -> None:
    for_it, against_it = standing(-0.2, 0.1, whole=-0.3), standing(0.5, -0.1, 0.45, whole=-0.01)
    assert findings(for_it)["claim"]["word"] == findings(against_it)["claim"]["word"] == "undecided"
    assert (for_it.bet, against_it.bet) == (MIN_SNR, UNIFORM)
    assert "Uniform is the best bet, nothing is shown" in findings(against_it)["sentence"]


def test_worth_goes_by_the_controls_own_fall() -> None:
    # From a quarter of the images to all, the control's FID halves: it falls as the root of the images.
    found = findings(standing(-0.3, -0.3))
    assert found["worth_in_images_of_the_control"] == pytest.approx(math.exp(0.3 / 0.5))
    assert found["pays_from_images"] == pytest.approx(found["cost_in_whole_trainings"] * 1280 / (math.exp(0.6) - 1))
    assert findings(standing(0.3, 0.3))["worth_in_images_of_the_control"] is None


def test_the_recipe_is_the_bets_at_its_rate() -> None:
    recipe = recipe_document(standing(-0.3, -0.31))["recipes"]["base"]
    assert recipe["loss_weight"] == {"kind": "min_snr", "gamma": 5.0}
    assert recipe["optimizer"]["lr"] == 2 * tiny().recipe.optimizer.lr
    validate(Recipe, recipe, TINY)


def test_the_recipe_of_an_arm_over_slots_names_those_of_the_control() -> None:
    slots, control = Candidate("slots", 1.0), {UNIFORM: {0: 3.0, 1: 3.0}}
    results = {one: {0: 2.0, 1: 2.0} for one in (slots,)} | control
    race = tiny(finals=None, whole={"keep": 1, "seeds": [0, 1], "lower_rate": True})
    won = Standing(race, {"whole": results}, False, {}, "ddim", Partition([(0, 4), (5, 19), (20, 49)]))
    recipe = recipe_document(won)["recipes"]["base"]
    assert recipe["sampler"] == {"density": "slots", "draw": "stratified", "ranges": [[0, 4], [5, 19], [20, 49]]}
    assert validate(Recipe, recipe, TINY).sampler.needs == ()


def test_the_recipe_of_experts_is_a_base_and_a_training_for_each_group() -> None:
    race = tiny(finals=None, whole={"keep": 1, "seeds": [0, 1], "lower_rate": True})
    results = {Candidate("experts", 1.0): {0: 2.0, 1: 2.0}, UNIFORM: {0: 3.0, 1: 3.0}}
    found = recipe_document(Standing(race, {"whole": results}, False, {}, "ddim", None))
    assert found["groups"] == {"ids": [0, 1], "kind": "snr", "min_ratio": 0.5}
    assert [one["images"] for one in found["recipes"].values()] == [640, 320]
    assert validate(RangeRecipe, found["recipes"]["expert"], TINY).optimizer.warmup_images == 32


def test_without_the_controls_slots_the_arm_over_them_has_collapsed() -> None:
    with pytest.raises(Diverged, match="the control's first training has no slots"):
        with_measured_slots(tiny().recipe_of("slots"), {"collapsed": "loss is infinite", "slots": None})


def test_show_lists_every_rung_and_what_comes_next() -> None:
    text = "\n".join(lines(standing()))
    assert "short at 0.25 of the images" in text
    assert "next: confirm, 4 trainings" in text
    # So far 7.5 whole trainings' worth in 75 min, of 14.5 in all: 40 min for 4 more, 70 min for 7.
    timed = replace(standing(), seconds={"short": (1500.0, 0.0), "whole": (1800.0, 0.0), "finals": (1200.0, 0.0)})
    assert "about 40 min of one device by what trainings have taken; to the end at most 1.2 h" in [*lines(timed)][-1]


def test_the_page_shows_samples_next_to_the_nearest_training_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), np.uint8)
    facts = {"source": "folder", "shape": [3, 8, 8], "split": {"train": [0, 30], "holdout": [30, 40]}}
    data = PreparedData(images, None, facts, tmp_path)
    for name in ("uniform_x1_block_200", "min_snr_x2_block_200"):
        (tmp_path / "confirm").mkdir(exist_ok=True)
        np.save(tmp_path / "confirm" / f"{name}.npy", images[:16])  # all memorized
    race = replace(standing(-0.3, -0.31), seconds={"short": (1500.0, 60.0), "whole": (2100.0, 0.0)})
    drawn = samples(race, tmp_path, data)
    assert drawn is not None
    assert "Samples are 0.00 × as far from training images as held-out images are" in drawn.caption
    drawn.draw(figure := Figure())
    names = [text.get_text() for axes in figure.axes for text in (axes.yaxis.label, *axes.get_yticklabels())]
    assert {"uniform", "nearest training image", "held-out images"} <= set(names)
    monkeypatch.chdir(tmp_path)
    write_json(measured("short", MIN_SNR, 100), {"fid": 30.0, "conditions": {"device": "cpu"}})
    line = page_facts(race, data)
    assert line.startswith("folder, 30 training and 10 held-out images of 8×8×3 values · 1 h of training on cpu, 1 min")


def test_the_page_names_only_commands_that_work_as_the_race_stands() -> None:
    """`adopt` refuses a race without whole trainings, and a set of experts."""
    ended = standing(-0.3, -0.31)
    assert next_commands(replace(ended, done={"short": ended.done["short"]}, ended=False), "") == ["unequal race run"]
    assert next_commands(standing(), "") == ["unequal race run", "unequal race adopt"]
    commands = next_commands(ended, "--snr_gamma 5")
    assert commands == ["unequal race adopt", "# flags for scripts of diffusers or kohya: results/race/recipe.yaml"]
    results = {Candidate("experts", 1.0): {0: 2.0, 1: 2.0}, UNIFORM: {0: 3.0, 1: 3.0}}
    race = tiny(finals=None, whole={"keep": 1, "seeds": [0, 1], "lower_rate": True})
    experts = Standing(race, {"whole": results}, True, {}, "ddim", None)
    assert next_commands(experts, "") == ["# paste the sections of results/race/recipe.yaml into params.yaml"]


@pytest.mark.parametrize(
    ("changes", "schedule", "flags"),
    [
        ({"loss_weight": {"kind": "min_snr", "gamma": 5.0}}, BETAS, "--prediction_type epsilon --snr_gamma 5"),
        ({"loss_weight": {"kind": "min_snr", "gamma": 5.0}}, BETAS, "--min_snr_gamma 5"),
        ({"prediction": "v_prediction"}, BETAS, "--prediction_type v_prediction\n"),
        ({"prediction": "v_prediction"}, BETAS, "  fine_tune.py\n--v_parameterization"),
        ({"loss_weight": {"kind": "p2", "gamma": 1.0}}, BETAS, "# diffusers: no script accepts it"),
        (
            # diffusers' scripts count times from the noise end: the mean has the other sign.
            {"prediction": "velocity", "sampler": {"density": "logit_normal", "mean": 0.5, "std": 1.0}},
            FLOW,
            "--weighting_scheme logit_normal --logit_mean -0.5 --logit_std 1",
        ),
        ({"prediction": "velocity"}, FLOW, "# diffusers: nothing to say"),
        ({"prediction": "velocity", "sampler": {"density": "uniform_log_snr"}}, FLOW, "# kohya: no script accepts it"),
    ],
)
def test_flags_say_what_scripts_accept(changes: dict[str, Any], schedule: Any, flags: str) -> None:
    recipe = tiny().recipe.model_dump(mode="json", exclude_defaults=True) | changes
    assert flags in script_flags(validate(Recipe, recipe, TINY), schedule)


def test_an_edit_keeps_comments_and_all_other_values(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("a: 1 # one\nb: {c: 1e-4} # of c\n# the end\nd:\n  e: x # of e\n", encoding="utf-8")
    text = edited(file, {"d.e": "y", "f": in_lines({"g": [1, 2], "h": None}, {"g": "of g"}), "k": in_a_line({"l": 1})})
    assert [one in text for one in ("# one", "# of c", "# the end", "1e-4", "# of g", "h: null")] == [True] * 6
    document = yaml.safe_load(text)
    assert document["d"] == {"e": "y"}
    assert document["f"] == {"g": [1, 2], "h": None}
