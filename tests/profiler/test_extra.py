"""The command needs what the extra `profile` names, and nothing of the pipeline's besides."""

import re
import tomllib

import pytest
from hidden_libraries import ROOT, imported


@pytest.mark.thorough
def test_every_module_of_the_command_is_imported_with_its_extra_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config = [*project["dependencies"], *project["optional-dependencies"]["profile"]]
    names = [re.match(r"[\w.-]+", one)[0] for one in config]  # type: ignore[index]
    files = (ROOT / "unequal/profiler").glob("*.py")
    modules = sorted(f"unequal.profiler.{file.stem}" for file in files if file.stem != "__init__")
    found = imported(names, modules)
    assert found["found"] == dict.fromkeys(modules, "")
    assert {"mlflow", "dvc", "snakemake", "torch_pruning"} <= set(found["hidden"])
