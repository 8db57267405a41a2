"""A race that cannot be run is refused in one line, before anything is trained."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from commands import done
from one_line import refusal

from unequal.cli.main import unequal
from unequal.errors import UserError
from unequal.pipeline.params_files import check_params
from unequal.pipeline.replicas import with_value
from unequal.race import drafting, simulation
from unequal.race.arms import fitting
from unequal.race.params import RaceParams
from unequal.race.planning import (
    Budget,
    PricedRace,
    Prices,
    affordable,
    least_final,
    refuse_what_does_not_pay,
    smaller_races,
)
from unequal.race.simulation import Prospect
from unequal.report.formatting import duration
from unequal.settings.params import Params
from unequal.settings.strict import read_yaml, validate

FILE = Path(__file__).parent / "tiny/params.yaml"
SOUND = read_yaml(FILE)


def edited(**edits: Any) -> dict[str, Any]:
    """The tiny race with values at keys, whose dots are written `__`."""
    document = SOUND
    for key, value in edits.items():
        document = with_value(document, key.split("__"), value)
    return document


def test_the_tiny_race_is_sound() -> None:
    params = validate(RaceParams, SOUND, FILE)
    assert params.race is not None
    assert params.race.recipe_of("min_snr").loss_weight.kind == "min_snr"
    assert params.race.recipe_of("uniform") == params.race.recipe
    assert sorted(params.placed_recipes) == [
        f"race.arms.{name}" for name in ("experts", "explodes", "min_snr", "slots", "uniform")
    ]


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        (
            {"race__control": "plain"},
            "control: 'plain' is no variant; there is: uniform, min_snr, slots, experts, explodes",
        ),
        ({"race__short__seeds": [0]}, "seeds: 0 stands twice"),
        ({"race__finals": None}, "whole.seeds: [0]; whole and finals need 2 seeds or more"),
        ({"race__arms__min_snr": {"images": 640}}, "arms.min_snr.images: 640; allowed: 1280"),
        ({"race__arms__min_snr": {"batch_size": 8}}, "arms.min_snr.batch_size: 8; learning curves of unequal batches"),
        (
            {"race__short__share": 0.125, "race__recipe__optimizer__warmup_images": 320},
            "short.share: 0.125 of 1280 images is shorter than the warm-up",
        ),
        ({"training__average": {"kind": "exponential", "decay": 0.99}}, "training.average: exponential, of a fixed"),
        (
            {"race__arms__min_snr": {"average": {"kind": "exponential", "decay": 0.99}}},
            "arms.min_snr.average: exponential, of a fixed horizon",
        ),
        ({"race__arms__experts__experts__count": 6}, "race.arms.experts.experts: 320 images leave 26 to the base or"),
        ({"race__arms__experts__experts__count": 60}, "race.arms.experts.experts: 60 groups of 50 timesteps"),
        ({"race__arms__experts__sampler": {"density": "slots"}}, "arms.experts.experts: of the control, with a batch"),
        ({"race__control": "slots"}, "arms.slots.sampler: density 'slots' needs the control's slots"),
        ({"race__slots": None}, "arms.slots.sampler: density 'slots' needs the control's slots; allowed: race.slots"),
        ({"race__slots__count": 51}, "race.slots.count: 51; at most schedule.timesteps, 50"),
        ({"race__arms__min_snr": {"sampler": {"density": "loss"}}}, "arms.min_snr.sampler: density 'loss' needs a"),
        ({"race__arms__min_snr": {"sampler": {"density": "slot"}}}, "arms.min_snr: allowed: one head, all timesteps"),
        ({"race__recipe__optimizer__decay": "constant"}, "arms.uniform.optimizer.decay: 'constant'; a race judges"),
        ({"race__whole__keep": 5}, "whole.keep: 5 variants besides the control; there are 4"),
        ({"race__finals__keep": 2}, "finals.keep: 2 variants besides the control; whole trainings keep 1"),
        ({"race__short": None}, "whole.keep: 1 without short trainings"),
        ({"race__rates": [1, 1]}, "rates: [1.0, 1.0] names one twice"),
        ({"evaluation__samples": 50, "evaluation__kid_subset": 50}, "evaluation.samples: 50 is fewer than"),
        (
            {"network__pretrained": "folder"},
            "network.pretrained: 'folder'; variants of a race begin with fresh weights",
        ),
        ({"race__samplings__ddim__steps": 51}, "race.samplings.ddim.steps: beyond schedule.timesteps, 50"),
        ({"schedule": {"name": "flow", "timesteps": 50}, "race__recipe__prediction": "v_prediction"}, "'v_prediction'"),
    ],
)
def test_a_race_that_cannot_be_run_is_refused(edits: dict[str, Any], says: str) -> None:
    line = refusal(validate, RaceParams, edited(**edits), Path("params.yaml"))
    assert line.startswith("params.yaml: ") and says in line


def test_arms_of_other_batches_race_where_nothing_is_short() -> None:
    whole = {"race__short": None, "race__whole": {"keep": None, "seeds": [0]}, "race__arms__min_snr": {"batch_size": 8}}
    params = validate(RaceParams, edited(**whole), FILE)
    assert "race.arms.min_snr" in params.with_other_batches


@pytest.mark.parametrize("schedule", ["linear", "flow"])
def test_shipped_arms_fit_together(schedule: str) -> None:
    params = Params.read(Path("params.yaml"))
    other = params.schedule if schedule == "linear" else Params.read(Path("presets/own-images-flow.yaml")).schedule
    recipe = params.recipes["base"]
    fits, left_out = fitting(recipe, other, 128)
    assert {"uniform", "logit_normal", "min_snr", "p2", "info_noise", "learned_uncertainty", "curriculum"} <= set(fits)
    assert ("speed" in left_out) == (schedule == "flow")
    assert ("predicts_v_prediction" in fits) == (schedule == "linear")


PRICES = Prices(images=1000, training=100.0, scoring=10.0, start=5.0)


SMALL = PricedRace(("uniform", "p2", "logit_normal", "min_snr"), "uniform", (0.5, 1.0, 2.0), 0.05, PRICES)


def test_a_budget_that_is_too_small_names_the_cheapest_race() -> None:
    line = refusal(affordable, SMALL, Budget(600.0, in_images=False))
    assert line.startswith("--budget: 10 min; the cheapest race of 4 variants at 3 rates takes ") and "raise it" in line


@pytest.mark.parametrize(
    ("images", "first"),
    # Two arms at one rate take ten whole trainings: two of each, and three fresh ones of each.
    [(11_600, "--rates 1"), (11_200, "--arms min_snr,logit_normal --rates 1"), (9_999, "--whole-images 750")],
)
def test_a_budget_that_is_too_small_names_what_fits_it(images: int, first: str) -> None:
    budget = Budget(images, in_images=True)
    options = [line.strip().partition("  (")[0] for line in list(smaller_races(SMALL, budget))[1:-1]]
    assert options[0] == first
    for line in options:
        words = line.split()
        changed = dict(zip(words[::2], words[1::2], strict=True))
        count = 1 + len(changed["--arms"].split(",")) if "--arms" in changed else 4
        race = SMALL.with_arms(count).at_one_rate if "--rates" in changed else SMALL.with_arms(count)
        race = race.shortened(int(changed.get("--whole-images", 1000)) / 1000)
        assert affordable(race, budget)


def test_a_budget_for_nothing_names_the_smallest_race() -> None:
    (line,) = smaller_races(SMALL, Budget(500.0, in_images=True))
    assert line == "The smallest race is that of --arms min_snr --rates 1 --whole-images 125; it takes 1,250 images."


def test_a_race_longer_than_what_it_saves_is_refused() -> None:
    # 28 trainings of 1 h, for a recipe that is worth twice the images: 28 h of final training, or do not race.
    found = Prospect(None, 28.0, 0.01, 0.9, 0.9, 0.5, gain=0.2)  # type: ignore[arg-type]
    assert least_final(found, 28 * 3600.0) == pytest.approx(28 * 3600.0)
    line = refusal(refuse_what_does_not_pay, found, 28 * 3600.0, Budget(20 * 3600.0, in_images=False))
    assert line.startswith("do not race: below 28 h ") and "does not pay, and yours takes 20 h" in line


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("race plan {} --budget soon", "--budget: 'soon'; allowed: a number with h, min or d, as 40h"),
        ("race plan {}", "a budget: give one, --budget 40h (h, min or d), or --images with a number"),
        ("race plan {} --budget 1h --rates 1,x", "--rates: '1,x'; allowed: numbers between commas"),
        ("race plan {} --budget 1h --rates 0,1", "--rates: '0,1'; allowed: unequal numbers above 0"),
        ("race plan {} --budget 1h --arms faster", "--recipe: 'base'"),
        ("race show {}", "no rung of a race is judged yet; run `unequal race run`"),
        ("race adopt {}", "no rung of a race is judged yet; run `unequal race run`"),
    ],
)
def test_commands_refuse_in_one_line(tmp_path: Path, command: str, says: str) -> None:
    (tmp_path / "params.yaml").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    result = CliRunner().invoke(unequal, command.format(tmp_path).split())
    assert isinstance(result.exception, UserError)
    assert says in str(result.exception)


def test_a_folder_without_a_race_is_refused(tmp_path: Path) -> None:
    document = {key: value for key, value in SOUND.items() if key != "race"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    result = CliRunner().invoke(unequal, ["race", "run", str(tmp_path)])
    assert "race: missing; `unequal race plan --budget …` writes it" in str(result.exception)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings cost what PRICES says, and few races are simulated."""
    monkeypatch.setattr(drafting, "start_seconds", lambda: 1.0)
    monkeypatch.setattr(drafting, "measured_prices", lambda params, images, *_: replace(PRICES, images=images))
    monkeypatch.setattr(simulation, "FEW", 2)
    monkeypatch.setattr(simulation, "MANY", 2)
    monkeypatch.setattr(simulation, "TRIED", 2)


def contents(folder: Path) -> dict[Path, bytes]:
    """All files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("priced")
@pytest.mark.parametrize("options", ["--budget 9h --dry-run", "--budget 1min", "--budget 9h --final 1min"])
def test_a_dry_or_refused_plan_leaves_a_folder_as_it_was(tmp_path: Path, options: str) -> None:
    (tmp_path / "params.yaml").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    before = contents(tmp_path)
    result = CliRunner().invoke(unequal, ["race", "plan", str(tmp_path), *options.split()])
    assert isinstance(result.exception, UserError) == ("--dry-run" not in options), result.output
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("images", "asked", "said"),
    [
        (1000, False, "The recipe's own training, of 1 h, is too short to race for"),  # an hour, where 28 hours pay
        (100_000, False, ""),
        (1000, True, ""),
    ],
)
def test_a_training_too_short_to_race_for_is_named_outright(images: int, asked: bool, said: str) -> None:
    hourly = replace(SMALL, prices=Prices(images=1000, training=3600.0, scoring=0.0, start=0.0))
    plan = min(hourly.plans, key=lambda one: one.cost(4))
    found = Prospect(plan, plan.cost(4), 0.01, 0.9, 0.9, 0.5, gain=0.2)  # worth twice the images
    lines = list(hourly.worth(found, Budget(40 * 3600.0, in_images=False), images, asked))
    assert f"pays from a final training of {duration(3600 * plan.cost(4))} on, if variants differ" in lines[-1]
    assert [line.partition(";")[0] for line in lines[:-1]] == [said] * bool(said)


def test_a_dry_run_lists_the_first_rung_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    before = contents(tmp_path)
    said = done("race", "run", tmp_path, "--dry-run").splitlines()
    race = validate(RaceParams, SOUND, FILE).race
    assert race is not None and race.short is not None
    count = len(race.arms) * len(race.rates) * len(race.short.seeds)
    assert said[0].startswith(f"race: short: {count} trainings of 320 images")
    assert "  min_snr_x1_block_100" in said and len(said) == count + 2
    assert said[-1] == f"Nothing was written; next: unequal race run {tmp_path}"
    assert contents(tmp_path) == before


@pytest.mark.parametrize("section", ["variants", "slots"])
def test_a_pipelines_file_that_lacks_a_section_is_refused_as_one(tmp_path: Path, section: str) -> None:
    document = read_yaml(Path("params.yaml"))
    few = {key: value for key, value in document.items() if key in {*RaceParams.model_fields, section}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(few), encoding="utf-8")
    lines = [f"{line.split(': ')[1]}" for line in str(refusal_of(tmp_path)).split("\n")]
    assert section not in lines and "profile" in lines


def refusal_of(folder: Path) -> UserError:
    """The error by which the params file of a folder is refused."""
    with pytest.raises(UserError) as caught:
        RaceParams.read(folder / "params.yaml")
    return caught.value


@pytest.mark.usefixtures("priced")
def test_the_pipelines_file_races_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(Path("params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    arguments = ["race", "plan", str(tmp_path), "--budget", "9h", "--arms", "min_snr"]
    result = CliRunner().invoke(unequal, arguments)
    assert result.exception is None, result.exception
    assert (tmp_path / "race/dvc.yaml").exists() and (tmp_path / "race/bracket.yaml").exists()
    params = check_params(tmp_path / "params.yaml")  # by the gate of the graph that was laid
    assert isinstance(params, Params) and params.race is not None
    assert set(params.race.arms) == {"uniform", "min_snr"}
