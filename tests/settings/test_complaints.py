"""Refusals of settings in plain words: each kind of error, the key that was meant, and the line where it stands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from pydantic_core import CoreSchema

from unequal.errors import UserErrors
from unequal.pipeline.params_files import EXPERIMENT_GATE, gate_of
from unequal.settings.complaints import ALLOWED
from unequal.settings.params import Params
from unequal.settings.strict import Strict, checked, read_whole


class Plain(Strict):
    """One of two kinds."""

    kind: Literal["plain"]


class Wide(Strict):
    """The other one."""

    kind: Literal["wide"]
    width: int = Field(ge=2, le=8, multiple_of=2)
    fixed: Literal[False] = False


class Section(Strict):
    """Values of all kinds."""

    timesteps: int = Field(default=10, gt=1, lt=100)
    share: float = Field(default=0.5, gt=0, lt=1)
    flips: bool = False
    title: str | None = None
    draw: Literal["one", "other"] = "one"
    betas: tuple[float, float] = (0.9, 0.999)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, max_length=3)
    milestones: dict[Annotated[int, Field(gt=0)], float] = Field(default_factory=dict)
    steps: Literal["all"] | int | tuple[int, ...] = "all"


class Whole(Strict):
    """A params file."""

    schedule: Section
    network: Annotated[Plain | Wide, Field(discriminator="kind")]
    recipes: dict[str, Section] = Field(default_factory=dict)


SOUND: dict[str, Any] = {"schedule": {}, "network": {"kind": "plain"}}


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ({"schedule": {"timestep": 9}}, ["schedule.timestep: unknown key; did you mean `timesteps`?"]),
        (
            {"recipes": {"a": {"colour": 1}}},
            [
                "recipes.a.colour: unknown key; allowed here: timesteps, share, flips, title, draw, betas, seeds, "
                "milestones, steps"
            ],
        ),
        ({"netwrok": {"kind": "plain"}, "network": None}, ["netwrok: unknown key; did you mean `network`?"]),
        ({"schedule": {"share": 0.1, "shares": 0.1}}, ["schedule.shares: unknown key; allowed here: timesteps, share"]),
        ({"network": None}, ["network: missing"]),
        ({"network": {"kind": "tall"}}, ['network.kind: "tall"; allowed: plain, wide']),
        ({"network": {}}, ["network.kind: missing; allowed: plain, wide"]),
        ({"network": {"kind": "wide", "widht": 4}}, ["network.widht: unknown key; did you mean `width`?"]),
        ({"network": {"kind": "wide"}}, ["network.width: missing"]),
        ({"network": {"kind": "wide", "width": 3}}, ["network.width: 3; allowed: a multiple of 2"]),
        ({"network": {"kind": "wide", "width": 0}}, ["network.width: 0; allowed: at least 2"]),
        ({"network": {"kind": "wide", "width": 10}}, ["network.width: 10; allowed: at most 8"]),
        ({"network": {"kind": "wide", "width": 2, "fixed": True}}, ["network.fixed: true; allowed: false"]),
        ({"network": 5}, ["network: 5; allowed: a section of keys"]),
        ({"schedule": 5}, ["schedule: 5; allowed: a section of keys"]),
        ({"recipes": [1]}, ["recipes: allowed: a section of keys"]),
        ({"schedule": {"timesteps": 1}}, ["schedule.timesteps: 1; allowed: above 1"]),
        ({"schedule": {"timesteps": 100}}, ["schedule.timesteps: 100; allowed: below 100"]),
        ({"schedule": {"timesteps": 9.5}}, ["schedule.timesteps: 9.5; allowed: a whole number"]),
        ({"schedule": {"share": "x"}}, ['schedule.share: "x"; allowed: a number']),
        ({"schedule": {"share": float("inf")}}, ["schedule.share: Infinity; allowed: a finite number"]),
        ({"schedule": {"share": 1.0}}, ["schedule.share: 1.0; allowed: below 1"]),
        ({"schedule": {"flips": "yes"}}, ['schedule.flips: "yes"; allowed: true or false']),
        ({"schedule": {"title": 3}}, ["schedule.title: 3; allowed: text"]),
        ({"schedule": {"draw": "none"}}, ['schedule.draw: "none"; allowed: one or other']),
        ({"schedule": {"betas": [0.9]}}, ["schedule.betas.1: missing"]),
        ({"schedule": {"betas": [1, 2, 3]}}, ["schedule.betas: allowed: a list of 2 at most"]),
        ({"schedule": {"betas": 0.9}}, ["schedule.betas: 0.9; allowed: a list"]),
        ({"schedule": {"seeds": []}}, ["schedule.seeds: allowed: a list of 1 or more"]),
        ({"schedule": {"milestones": {"x": 0.5}}}, ['schedule.milestones.x: "x"; allowed: a whole number']),
        ({"schedule": {"milestones": {"0": 0.5}}}, ['schedule.milestones.0: "0"; allowed: above 0']),
        ({"schedule": {"steps": "some"}}, ['schedule.steps: "some"; allowed: all or a whole number or a list']),
        ({"schedule": {"steps": None, "flips": 1}}, ["schedule.steps: null; allowed: all or", "schedule.flips: 1; al"]),
    ],
)
def test_each_kind_of_error_is_a_plain_line(edits: dict[str, Any], lines: list[str]) -> None:
    document = {name: value for name, value in (SOUND | edits).items() if value is not None}
    with pytest.raises(UserErrors) as refusal:
        checked(Whole, document)
    said = refusal.value.lines
    assert len(said) == len(lines)
    assert all(any(line.startswith(begun) for line in said) for begun in lines), said


def parts(schema: Any) -> Iterator[CoreSchema]:
    """All parts of a schema of pydantic's."""
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema  # type: ignore[misc]
        for part in schema.values():
            yield from parts(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from parts(part)


#: Part of a schema → the error that it may raise; nothing: what it holds raises errors.
BY_TYPE = {
    **{kind: f"{kind}_type" for kind in ("int", "float", "bool", "dict", "tuple", "model")},
    **{"str": "string_type", "literal": "literal_error", "tagged-union": "union_tag_invalid"},
    **dict.fromkeys(("any", "default", "definitions", "definition-ref", "function-after", "function-before")),
    **dict.fromkeys(("function-plain", "model-field", "model-fields", "nullable", "union", "no-info", "with-info")),
}
BY_BOUND = {
    **{"gt": "greater_than", "ge": "greater_than_equal", "lt": "less_than", "le": "less_than_equal"},
    **{"multiple_of": "multiple_of", "min_length": "too_short", "max_length": "too_long"},
}


@pytest.mark.parametrize("model", [Params, gate_of(EXPERIMENT_GATE).model])
def test_every_error_that_settings_can_raise_has_words(model: type[Strict]) -> None:
    found = list(parts(model.__pydantic_core_schema__))
    raised = {BY_TYPE[part["type"]] for part in found} | {
        BY_BOUND[key] for part in found for key in BY_BOUND.keys() & part
    }
    assert len(raised) > 10
    assert raised - {None} <= ALLOWED.keys()


def test_a_line_has_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(
        "# A comment.\nschedule:\n  flips: 1\n  betas: [0.9,\n    x]\n\nrecipes: {a: {timestep: 3}}\nnetwork: {}\n"
    )
    with pytest.raises(UserErrors) as refusal:
        read_whole(Whole, path)
    places = [line.removeprefix(str(path)).partition(": ")[2].partition(": ")[0] for line in refusal.value.lines]
    numbers = [line.removeprefix(f"{path}:").partition(": ")[0] for line in refusal.value.lines]
    assert dict(zip(places, numbers, strict=True)) == {
        "schedule.flips": "3",
        "schedule.betas.1": "5",
        "recipes.a.timestep": "7",
        "network.kind": "8",
    }
