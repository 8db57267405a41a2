"""The page on taking a model away: what it puts into a loop of one's own runs, and has the names of params.yaml."""

import re
from typing import Any

import pytest
import torch
import yaml
from pages import ROOT, blocks

import unequal
from unequal.settings.complaints import sections_in
from unequal.settings.evaluation import Sampling
from unequal.settings.recipe import Recipe
from unequal.settings.strict import Strict

PAGE = ROOT / "docs/take-away.md"
ROWS = re.findall(r"^\| `(\w+: \{.*?\})` \| `(.*)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_last_example_runs():
    *_, last = blocks(PAGE, "python")
    names: dict[str, Any] = {}
    exec(compile(last.text, last.id, "exec"), names)
    assert torch.isfinite(names["loss"])


@pytest.mark.parametrize(("setting", "code"), ROWS, ids=lambda text: text[:20])
def test_a_setting_has_its_words_in_the_library(setting, code):
    ((section, values),) = yaml.safe_load(setting).items()
    sections: list[type[Strict]] = (
        [Sampling] if section == "sampling" else [*sections_in(Recipe.model_fields[section].annotation)]
    )
    assert any(values.keys() <= model.model_fields.keys() for model in sections)
    schedule = unequal.NoiseSchedule.linear(1000)
    names = {name: getattr(unequal, name) for name in unequal.__all__}
    names |= {"schedule": schedule, "noise": torch.randn(2, 1, 4, 4), "predict": lambda x_t, t: 0 * x_t}
    assert eval(code, names) is not None
