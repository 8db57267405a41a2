"""The built wheel in environments of its own: with torch and NumPy alone, and with all libraries, for own runs."""

import os
import re
import shutil
import subprocess
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
import yaml
from harness.projects import copy_of_repository, run
from PIL import Image

from unequal.cli.trial import with_values
from unequal.settings.strict import read_yaml

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
    python = installed(folder, wheel)
    for name in closure("torch", "numpy"):
        link(name, next(folder.glob("lib/python*/site-packages")))
    return python


def installed(folder: Path, wheel: Path) -> Path:
    """Make an environment with the wheel, and return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    uv, python = os.environ.get("UV") or shutil.which("uv"), folder / "bin/python"
    command = [uv, "pip", "install", "--offline", "--no-deps", "--python", python, wheel]
    subprocess.run(command, capture_output=True, text=True, check=True)
    return python


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


def ran(python: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean["PATH"] = f"{python.parent}{os.pathsep}{clean['PATH']}"
    return subprocess.run(
        [python, *words], capture_output=True, text=True, cwd=cwd or python.parent, env=clean, check=False
    )


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


#: Settings of a run that takes a minute.
TINY = {
    "schedule.timesteps": 50, "network.block_out_channels": [8, 16], "network.attention_head_dim": 8,
    "training.batch_size": 16, "training.pictures": 1, "profile.images": 2, "sampling.steps": 2,
    "sampling.batch_size": 50, "evaluation.samples": 70, "evaluation.seeds": [0], "evaluation.kid_subset": 10,
    "extractor.images": 12800, "recipes.base.images": 64, "recipes.base.optimizer.warmup_images": 0,
    "recipes.stratified.images": 32,
}  # fmt: skip


def test_a_folder_from_the_wheel_runs_both_engines_and_samples_without_clone_or_git(wheel, tmp_path):
    """One model by Snakemake; a second one, added by its name, by DVC."""
    python = installed(tmp_path / "environment", wheel)
    libraries = Path(str(distribution("torch").locate_file("")))  # its .pth files, as the clone's, are not read
    (next((tmp_path / "environment").glob("lib/python*/site-packages")) / "libraries.pth").write_text(f"{libraries}\n")
    before = run(ROOT, "git", "status", "--porcelain")
    here, generator = tmp_path / "elsewhere", np.random.default_rng(0)
    for number in range(60):
        name = here / f"pictures/{'dark' if number % 2 else 'light'}/{number}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 128, (20, 16, 3), np.uint8) + np.uint8(100 * (number % 2))).save(name)

    def done(*words: str) -> str:
        ended = ran(python, "-m", *words, cwd=here / "own" if (here / "own").exists() else here)
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
        return ended.stdout

    assert "60 images" in done("unequal", "init", "own", "--images", "pictures", "--size", "16")
    params = here / "own/params.yaml"
    params.write_text(yaml.safe_dump(settings := with_values(read_yaml(params), TINY)))
    done("snakemake", "--cores", "2")
    assert sorted(path.name for path in (here / "own/artifacts/models").iterdir()) == ["base"]
    assert (here / "own/results/report.html").exists()
    assert (here / "own/mlflow.db").exists()
    params.write_text(yaml.safe_dump(with_values(settings, {"scored_models": ["base", "stratified"]})))
    ended = ran(python, "-m", "dvc", "repro", cwd=here / "own")
    assert ended.returncode and "run `dvc repro` again" in ended.stderr
    done("dvc", "repro")
    done("unequal", "sample", "stratified", "--count", "2", "--out", "pictures")
    assert len(list((here / "own/pictures").glob("*.png"))) == 2
    assert sorted(path.name for path in here.iterdir()) == ["own", "pictures"]
    assert run(ROOT, "git", "status", "--porcelain") == before


def test_a_folder_in_the_clone_is_no_change_of_it(tmp_path):
    clone = copy_of_repository(tmp_path / "clone")
    run(clone, "git", "add", "-A")
    run(clone, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
    run(clone, "python", "-m", "unequal", "init", "mine", "--preset", "digits")
    run(clone / "mine", "dvc", "repro", "check_params", environment={"PYTHONPATH": str(clone)})
    assert (clone / "mine/artifacts/params_checked.json").exists()
    assert run(clone, "git", "status", "--porcelain") == ""
