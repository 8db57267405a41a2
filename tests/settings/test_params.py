"""The repository's own params.yaml is sound, and each edit that makes it impossible is refused in one line."""

import copy
import json
from functools import cache, reduce
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from graph import pipeline_presets
from one_line import unnumbered

from unequal.errors import UserError
from unequal.pipeline.params_files import json_schema
from unequal.settings.evaluation import Sampling
from unequal.settings.params import Params

ROOT = Path(__file__).parents[2]
DEFAULT = yaml.safe_load((ROOT / "presets/digits.yaml").read_text(encoding="utf-8"))
#: Edits of the default params.yaml by dotted keys: those that are refused, each with the line's beginning; sound ones.
EDITS = yaml.safe_load((Path(__file__).parent / "params_edits.yaml").read_text(encoding="utf-8"))
REFUSED = [(case["edits"], case["says"]) for case in EDITS["refused"]]
ACCEPTED = EDITS["accepted"]
#: In the place of a value: the key is taken away.
DELETED = "DELETED"
LLM = {"kind": "llm", "model": "m", "base_url": "https://localhost/v1", "api_key_env": "UNEQUAL_KEY"}


@cache
def by_schema() -> jsonschema.Draft202012Validator:
    """The validator by the schema of the pipeline's params.yaml, as JSON carries it."""
    return jsonschema.Draft202012Validator(json.loads(json.dumps(json_schema(Params))))


def edited(edits: dict[str, Any]) -> dict[str, Any]:
    """The default with values replaced or deleted at dotted keys."""
    document = copy.deepcopy(DEFAULT)
    for dotted, value in edits.items():
        *sections, last = dotted.split(".")
        place = reduce(dict.__getitem__, sections, document)
        place[last] = value
        if value == DELETED:
            del place[last]
    return document


def written(document: dict[str, Any], folder: Path) -> Path:
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", pipeline_presets(), ids=lambda path: path.name)
def test_files_of_the_repository_are_sound(path: Path) -> None:
    params = Params.read(path)
    assert params.schedule.timesteps == yaml.safe_load(path.read_text(encoding="utf-8"))["schedule"]["timesteps"]


@pytest.mark.parametrize(
    ("edits", "complaint"), REFUSED, ids=[f"{next(iter(e))}-{i}" for i, (e, _) in enumerate(REFUSED)]
)
def test_an_impossible_edit_is_refused_in_one_line(edits: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    path = written(edited(edits), tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    first, *others = str(refusal.value).splitlines()
    assert unnumbered(first, path).startswith(complaint)
    assert all(line.startswith(f"{path}:") for line in others)


def test_all_that_is_wrong_is_listed_a_line_each(tmp_path: Path) -> None:
    values = {"data.colour": "red", "training.batch_size": 0, "extractor.kind": "vgg"}
    combinations = {"sampling.steps": 3000, "scored_models": ["base", "bass"], "slots.count": 5000}
    for edits in (values, combinations):
        with pytest.raises(UserError) as refusal:
            Params.read(written(edited(edits), tmp_path))
        lines = [unnumbered(line, tmp_path / "params.yaml") for line in str(refusal.value).splitlines()]
        assert sorted(line.partition(": ")[0] for line in lines) == sorted(edits)


@pytest.mark.parametrize("edits", ACCEPTED, ids=lambda edits: ",".join(edits))
def test_a_possible_edit_is_accepted(edits: dict[str, Any], tmp_path: Path) -> None:
    document = edited(edits)
    Params.read(written(document, tmp_path))
    by_schema().validate(document)


@pytest.mark.parametrize(
    ("secret", "edits"),
    [
        ("sk-secret-0123", {"api_key_env": "sk-secret-0123"}),
        ("s3cret", {"base_url": "https://user:s3cret@localhost/v1"}),
        ("s3cret", {"base_url": "https://localhost/v1?key=s3cret"}),
    ],
)
def test_a_secret_in_the_settings_is_refused_and_not_repeated(
    secret: str, edits: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"pruning\.expert\.decider\.(api_key_env|base_url): holds") as refusal:
        Params.read(written(edited({"pruning.expert.decider": LLM | edits}), tmp_path))
    assert secret not in str(refusal.value)


def test_the_schema_is_json_and_knows_the_default() -> None:
    by_schema().check_schema(by_schema().schema)
    by_schema().validate(DEFAULT)


@pytest.mark.parametrize(("solver", "calls"), [("ddim", 2 * 18), ("dpm_solver_2m", 2 * 18), ("heun", 2 * 35)])
@pytest.mark.parametrize("steps", [18, list(range(17, -1, -1))], ids=["number", "list"])
def test_calls_of_a_network_follow_the_solver(solver: str, calls: int, steps: Any) -> None:
    """EDM's 18 steps take 35 predictions (2206.00364, table 2); 150 images are two batches."""
    spacing = "edm" if isinstance(steps, int) else None
    values = {"steps": steps, "spacing": spacing, "solver": solver, "eta": 0.0, "clip": True, "batch_size": 100}
    assert Sampling.model_validate_json(json.dumps(values)).calls(150) == calls


@pytest.mark.parametrize(
    "edits",
    [
        {"colour": "red"},
        {"recipes.base.sampler.strength": 2},
        {"seed": DELETED},
        {"training.batch_size": 0},
        {"sampling.steps": 0},
    ],
    ids=lambda edits: ",".join(edits),
)
def test_the_schema_refuses_what_a_single_value_gives_away(edits: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        by_schema().validate(edited(edits))
