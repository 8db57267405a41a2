"""Names and descriptions of runs in MLflow."""

from typing import Any

import pytest

from unequal.pipeline.naming import Earlier, run_label, texts

COMMITTED: dict[str, Any] = {
    "seed": 0,
    "data": {"source": "digits", "path": None, "image_size": 8},
    "recipes": {f"recipe_{number}": {"images": 100} for number in range(20)},
    "runtime": {"device": "auto"},
}
#: A file of its own: every recipe differs.
OWN = COMMITTED | {
    "data": {"source": "folder", "path": "data/icons", "image_size": 16},
    "recipes": {f"recipe_{number}": {"images": 200} for number in range(20)},
}
FIRST = Earlier("pipeline icons 16 px", texts(OWN))


@pytest.mark.parametrize(
    ("changes", "earlier", "name", "described"),
    [
        ({}, [], "as committed", "Settings as in the commit's params.yaml."),
        ({"runtime": {"device": "cpu"}}, [], "as committed", "Settings as in the commit's params.yaml."),
        ({"seed": 1}, [FIRST], "seed=1", "- `seed`: 0 → 1"),
        ({"data": {"image_size": 8}}, [], "data.source=– data.path=–", "- `data.source`: digits → –"),
        (OWN, [], "icons 16 px", "A params file of its own: its settings are the parameters below."),
        (OWN | {"seed": 1}, [FIRST], "icons 16 px seed=1", "Differs from the run “pipeline icons 16 px”:"),
        (
            OWN | {"recipes": OWN["recipes"] | {f"recipe_{number}": {"images": 1} for number in range(5)}},
            [Earlier("other", {}), FIRST],
            "icons 16 px recipes.recipe_0.images=1 recipes.recipe_1.images=1 recipes.recipe_2.images=1 and 2 more",
            "- `recipes.recipe_4.images`: 200 → 1",
        ),
    ],
)
def test_a_run_is_named_by_what_differs(changes, earlier, name, described):
    written = COMMITTED | changes
    label = run_label(written, COMMITTED, written, earlier)
    assert label.name == name
    assert described in label.description.splitlines()


def test_without_a_commit_a_run_is_named_by_its_data():
    assert run_label(COMMITTED, None, COMMITTED, []).name == "digits 8 px"
    assert run_label({"seed": 1}, None, {"seed": 1}, []).name == "other settings"
