"""The command needs what the extra `profile` names, and nothing of the pipeline's besides."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Prints what importing modules comes to in a Python that finds the given distributions and what they require alone.
IMPORT = """
import json, sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from re import match

seen, todo = set(), json.loads(sys.argv[1])
while todo:
    name = todo.pop().lower().replace("_", "-")
    if name not in seen:
        seen.add(name)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        todo += [match(r"[\\w.-]+", one)[0] for one in needed if "extra ==" not in one]
TOP = packages_distributions()
HIDDEN = {top for top, names in TOP.items() if not {n.lower().replace("_", "-") for n in names} & seen} - {"unequal"}

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in HIDDEN else super().find_spec(name, path, target)

sys.meta_path = [Finder if one is PathFinder else one for one in sys.meta_path]
for name in json.loads(sys.argv[2]):
    import_module(name)
print(json.dumps(sorted(HIDDEN)))
"""


def test_every_module_of_the_command_is_imported_with_its_extra_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config = [*project["dependencies"], *project["optional-dependencies"]["profile"]]
    names = [re.match(r"[\w.-]+", one)[0] for one in config]  # type: ignore[index]
    families = [file.stem for file in (ROOT / "unequal/profiler/families").glob("*.py") if file.stem != "__init__"]
    modules = ["unequal.profiler.commands", *(f"unequal.profiler.families.{one}" for one in families)]
    command = [sys.executable, "-c", IMPORT, json.dumps(names), json.dumps(modules)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    assert {"mlflow", "dvc", "snakemake", "torch_pruning"} <= set(json.loads(done.stdout))
