"""`unequal suggest`: what it prints runs and says what was measured; bad input is one line."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from commands import call
from commands import done as done_by
from profiled import FLOW, LINEAR, document, written

from unequal.profiler import commands
from unequal.profiler.commands import suggest
from unequal.profiler.measure import PRECISIONS, STRATA
from unequal.profiler.suggestion import LOSSES, Halves, Kind, Options

ROOT = Path(__file__).parents[2]
run, done = partial(call, "suggest"), partial(done_by, "suggest")


def test_the_table_of_a_flow_has_all_parts(tmp_path):
    """The page shows that of other schedules, below."""
    said = done(written(tmp_path, FLOW))
    assert "some/model (UNet2DModel)" in said and "at 40 of 1000 timesteps, 16 draws at" in said
    for part in ("10 slots", "logit_normal", "Min-SNR's γ", "Boundary", "sampling steps"):
        assert part in said


@pytest.mark.parametrize(("schedule", "density"), [(LINEAR, "least_variance"), (FLOW, "slots")])
def test_the_python_runs_and_makes_what_the_figures_say(schedule, density, tmp_path):
    file, facts = written(tmp_path, schedule), tmp_path / "facts.json"
    program = done(file, "--as", "python", "--json", facts, "--density", density)
    made: dict[str, Any] = {}
    exec(compile(program, "suggested", "exec"), made)
    figures = json.loads(facts.read_text())
    assert [list(one) for one in made["slots"]] == figures["slots"]["ranges"]
    table = made["stratified"] if density == "slots" else made["table"]
    assert table.probabilities == pytest.approx(np.array(figures["density"]["probabilities"]))
    for near in figures["density"]["nearest"]:
        apart = np.abs(made[f"nearest_{near['family']}"] - table.probabilities).sum() / 2
        assert apart == pytest.approx(near["distance"], abs=1e-3)
    assert made["boundary"].log_snr == figures["boundary"]["borders"][0]["log_snr"]
    assert made["experts"][1].first == figures["boundary"]["borders"][0]["timestep"]
    assert made["steps"] == figures["steps"]["profile"]
    assert made["weights"].shape == (1000,)


PAGE = ROOT / "docs/suggesting.md"
(SHOWN,) = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_is_printed(monkeypatch):
    monkeypatch.chdir(ROOT)
    printed = done("docs/code/timesteps.json").splitlines()
    assert [line for line in SHOWN.splitlines() if line not in (*printed, "  …")] == []


def test_a_table_of_the_pipeline_is_no_profile_to_suggest_from():
    line = call("suggest", ROOT / "docs/example/profiles/base.csv").error
    assert "base.csv: is no timesteps.json; `unequal profile MODEL --train IMAGES --out FOLDER` writes" in line


def test_options_are_those_of_the_mathematics():
    assert tuple(PRECISIONS) == commands.PRECISIONS and commands.STRATA == STRATA
    assert tuple(LOSSES) == commands.SPACES
    assert get_args(Kind) == commands.DENSITIES and get_args(Halves) == commands.HALVES
    defaults = {one.name: one.default for one in suggest.params}
    assert Options(**{name: defaults[name] for name in ("slots", "steps", "space", "density", "halves")}) == Options()


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    content = document().model_dump(mode="json")
    change(content)
    return json.dumps(content)


GOOD = document().model_dump_json()
ENDLESS, HUGE = {"kind": "flow", "timesteps": 10**14, "shift": 1.0}, [1e308] * 40
BAD: dict[str, tuple[str | None, list[str], str]] = {
    "missing": (None, [], "timesteps.json: no such file; `unequal profile MODEL --train IMAGES --out FOLDER` writes"),
    "cut short": (GOOD[:200], [], "not valid JSON"),
    "too long": (changed(lambda c: c.update(schedule=ENDLESS)), [], "too many"),
    "a negative loss": (changed(lambda c: c["losses"]["held_out"]["mean"].__setitem__(3, -1.0)), [], "mean.3: -1.0"),
    "huge losses": (changed(lambda c: c["losses"]["held_out"].update(second_moment=HUGE)), [], "give no density"),
    "a forged line": (changed(lambda c: c.update(model="m\nError: forged")), [], 'model: "m\\nError: forged": holds'),
    "an escape": (changed(lambda c: c["conditions"].update(device="\x1b[2J")), [], "holds line breaks or signs that"),
    "too many slots": (GOOD, ["--slots", "41"], "41 slots from losses at 40 timesteps"),
}


@pytest.mark.parametrize(("content", "options", "said"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_errors_in_one_line(content, options, said, tmp_path):
    file, facts = tmp_path / "timesteps.json", tmp_path / "facts.json"
    if content is not None:
        file.write_text(content)
    result = run(file, *options, "--json", facts)
    assert (result.status, result.out) == (1, "")
    (line,) = result.error.splitlines()
    assert line.startswith("Error: ") and said in line
    assert not facts.exists()


def test_figures_that_cannot_be_written_are_reported(tmp_path):
    (tmp_path / "file").write_text("")
    result = run(written(tmp_path), "--json", tmp_path / "file" / "facts.json")
    assert result.status == 1 and result.out == ""
    assert result.error.count("\n") == 1 and "cannot be written" in result.error


def with_errors(folder: Path, share: float) -> Path:
    """The file with these standard errors, as shares of the means."""
    (folder / "timesteps.json").write_text(changed(lambda content: spread(content["losses"]["held_out"], share)))
    return folder / "timesteps.json"


def spread(losses: dict[str, list[float]], share: float) -> None:
    losses["stderr"] = [share * mean for mean in losses["mean"]]


def parts_of(file: Path, share: float) -> dict[str, Any]:
    facts = file.with_name(f"{share}.json")
    done(file, "--json", facts, "--slots", 4)
    return json.loads(facts.read_text())


def test_numbers_have_intervals_that_grow_with_the_errors(tmp_path):
    exact, rough = (parts_of(with_errors(tmp_path, share), share) for share in (0.0, 0.1))
    assert [one["value"] for one in exact["slots"]["intervals"]] == [first for first, _ in exact["slots"]["ranges"][1:]]
    for part in ("slots", "boundary"):
        for sharp, blurred in zip(exact[part]["intervals"], rough[part]["intervals"], strict=True):
            assert sharp["low"] == sharp["value"] == sharp["high"]
            assert blurred["low"] < blurred["value"] < blurred["high"]
    borders = {one["name"]: one["value"] for one in rough["boundary"]["intervals"]}
    assert borders == {one["name"]: one["timestep"] for one in rough["boundary"]["borders"][:2]}
    assert not any(rough[part]["withheld"] for part in ("slots", "gamma", "boundary"))


def test_what_the_errors_do_not_carry_is_withheld(tmp_path):
    file = with_errors(tmp_path, 2.0)
    parts = parts_of(file, 2.0)
    assert parts["slots"]["withheld"] and parts["boundary"]["withheld"]
    said = done(file, "--slots", 4)
    assert "Boundary of two experts: withheld" in said and "Wan 2.2" not in said
    assert "4 slots of equal loss in epsilon: withheld" in said
    marks = {"python": {"slots": "slots = ", "gamma": "gamma=", "boundary": "Boundary(log_snr"}}
    marks["diffusers"] = {"gamma": "--snr_gamma"}
    for form, mark in marks.items():
        said = done(file, "--as", form, "--slots", 4)
        assert "# slots: withheld: the errors of the losses leave too much open: start of slot 2 " in said
        assert {part: text in said for part, text in mark.items()} == {
            part: not parts[part]["withheld"] for part in mark
        }
