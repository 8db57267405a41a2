"""Imports of modules in a Python that finds some distributions and what they require alone."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: Prints the outcome of every import, which libraries were hidden, and which were loaded.
IMPORT_ALL = """
import json, sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from re import match

there, todo = set(), json.loads(sys.argv[1])
while todo:
    name = todo.pop().lower().replace("_", "-")
    if name not in there:
        there.add(name)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        todo += [match(r"[\\w.-]+", one)[0] for one in needed if "extra ==" not in one]
TOP = packages_distributions()
HIDDEN = {top for top, names in TOP.items() if not {n.lower().replace("_", "-") for n in names} & there} - {"unequal"}

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in HIDDEN else super().find_spec(name, path, target)

sys.meta_path = [Finder if one is PathFinder else one for one in sys.meta_path]
found = {}
for name in sys.argv[2:]:
    try:
        import_module(name)
        found[name] = ""
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"found": found, "hidden": sorted(HIDDEN), "loaded": sorted({n.split(".")[0] for n in sys.modules})}))
"""


def imported(distributions: Sequence[str], modules: Sequence[str]) -> dict[str, Any]:
    """`found`: module → its error or nothing; `hidden` and `loaded`: names of libraries."""
    command = [sys.executable, "-c", IMPORT_ALL, json.dumps(distributions), *modules]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment, check=True)
    return json.loads(done.stdout)
