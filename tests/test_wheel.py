"""The built wheel in an environment of its own, in which nothing but torch and NumPy is installed besides."""

import os
import re
import shutil
import subprocess
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: test_extras.py asks the same of the source tree, with libraries hidden.
pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv to build a wheel")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([uv, "build", "--wheel", "-o", folder, ROOT], capture_output=True, text=True, check=False)
    if "hatchling" in done.stderr and done.returncode:
        pytest.skip("needs hatchling, or a network to get it")
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The Python of an environment with the wheel, torch and NumPy, and what these require."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder, with_pip=False, symlinks=True)
    place = next(folder.glob("lib/python*/site-packages"))
    for name in closure("torch", "numpy"):
        link(name, place)
    uv = os.environ.get("UV") or shutil.which("uv")
    found = folder / "bin/python"
    command = [uv, "pip", "install", "--offline", "--no-deps", "--python", found, wheel]
    subprocess.run(command, capture_output=True, text=True, check=True)
    return found


def closure(*wanted: str) -> set[str]:
    """Distributions, and all that they require of what is installed here."""
    found, todo = set[str](), list(wanted)
    while todo:
        try:
            one = distribution(todo.pop())
        except PackageNotFoundError:  # required on other systems
            continue
        if one.name not in found:
            found.add(one.name)
            needed = [text for text in one.requires or [] if "extra ==" not in text]
            todo += [match[0] for text in needed if (match := re.match(r"[\w.-]+", text))]
    return found


def link(name: str, place: Path) -> None:
    one = distribution(name)
    tops = {file.parts[0] for file in one.files or [] if file.parts[0] != ".."}
    for top in tops - {path.name for path in place.iterdir()}:
        (place / top).symlink_to(Path(str(one.locate_file(top))))


def ran(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([python, *words], capture_output=True, text=True, cwd=python.parent, env=clean, check=False)


def test_the_mathematics_works_where_nothing_else_is_installed(python):
    done = ran(python, "-c", "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))")
    assert {"unequal", "torch", "numpy"} <= set(done.stdout.split())
    assert set(done.stdout.split()).isdisjoint({"scipy", "pydantic", "diffusers", "annotated-types"})
    page = """import sys
from functools import partial
import unequal
assert 'torch' not in sys.modules
from unequal import Flow, LossProfile, LowDiscrepancy, Timesteps, TimestepSampler, logit_normal, masses
density = masses(partial(logit_normal, mean=0.0), Flow(1000), 3.0, 'open')
sampler = TimestepSampler(density, draw=LowDiscrepancy())
assert Timesteps(sampler).draw(4).timesteps.shape == (4,)
"""
    done = ran(python, "-c", page)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_missing_is_one_line_with_the_wheel_to_install(python, wheel):
    done = ran(python, "-c", "import unequal.settings.samplers")
    assert done.stderr.splitlines()[-1].endswith(f"pip install 'unequal[pipeline] @ {wheel.as_uri()}'")
    command = ran(python, "-m", "unequal", "export", "base", "folder")
    assert (command.returncode, command.stderr.count("\n")) == (1, 1)
    assert "unequal.cli needs what is not installed (click, " in command.stderr
