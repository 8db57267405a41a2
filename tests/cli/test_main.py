"""The command group: help without heavy libraries, one line for whatever fails, exit statuses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call, refused
from graph import ROOT

from unequal.cli.main import SUBCOMMANDS

HELP = """
import sys
from unequal.cli.main import SUBCOMMANDS, run
for arguments in (["--version"], ["--help"], *([name, "--help"] for name in SUBCOMMANDS)):
    try:
        run(arguments)
    except SystemExit as ended:
        assert not ended.code
print(sorted({"torch", "numpy", "pydantic", "matplotlib", "diffusers", "dvc"} & set(sys.modules)))
"""


def test_help_of_all_commands_loads_no_heavy_library():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, env=environment, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
    assert ended.stdout.count("Usage: unequal") == 1 + len(SUBCOMMANDS)
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert ended.stdout.splitlines()[0] == f"unequal, version {version}"


def test_a_check_of_a_small_network_loads_neither_compiler_nor_engines():
    """Each of these takes from a tenth of a second to two."""
    heavy = {"dvc", "mlflow", "optuna", "pandas", "scipy.stats", "sklearn", "sympy", "torchvision", "transformers"}
    heavy |= {"matplotlib.pyplot", "torch._dynamo", "triton.runtime"}
    program = "import sys\nfrom unequal.cli.main import run\nrun(['check', 'presets/digits.yaml'])\n"
    program += f"print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    *lines, loaded = ended.stdout.splitlines()
    assert lines[1] == "presets/digits.yaml: sound" and "1,617 images for training, 180 held out" in lines[2]
    assert lines[3].startswith("cost: 164 k parameters")
    assert loaded == "[]"


@pytest.fixture
def empty(project: Path) -> Path:
    (project / "params.yaml").write_text("seed: 0\n")
    (project / "folder").mkdir()
    return project


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("sample base --out folder", "folder: exists already; name a new folder"),
        ("export bass taken", "artifacts/models/bass: no such model; there are: none; `dvc repro train_base` trains"),
        ("export best taken", "results/take.json: missing; `best` needs the scores of a whole run. Or name a model;"),
        ("average folder taken --width 0.1", "folder/model.json: "),
        ("schema none", "'none': no kind of params file; allowed: pipeline, compare"),
        ("suggest none.json", "none.json: no such file; `unequal profile MODEL --train IMAGES"),
        ("profile folder --train folder --guidance nan", "--guidance nan: not a finite number"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_1(empty: Path, arguments: str, line: str):
    assert refused(*arguments.split()).startswith(line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("nothing", "No such command 'nothing'."),
        ("plots --forever", "No such option '--forever'."),
        ("estimate a.yaml b.yaml", "Got unexpected extra argument (b.yaml)"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(empty: Path, arguments: str, line: str):
    called = call(*arguments.split())
    assert (called.status, called.out, called.error) == (2, "", f"Error: {line}\n")


@pytest.mark.thorough
def test_a_reader_that_leaves_ends_a_command_without_a_word():
    program = [sys.executable, "-m", "unequal", "schema"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=ROOT) as writer:
        assert writer.stdout is not None and writer.stderr is not None
        writer.stdout.close()
        assert writer.stderr.read() == b""
    assert writer.returncode == 0


def test_check_lists_all_that_is_wrong(empty: Path):
    called = call("check")
    assert called.status == 1 and "sound" not in called.out
    assert "Error: params.yaml: network: missing\n" in called.error
    assert all(line.startswith("Error: params.yaml") for line in called.error.splitlines())
