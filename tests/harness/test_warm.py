"""A program started out of the warm process is, to all outside, the one that a new Python would be."""

import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]
PROGRAM = """
import os, sys, time
if sys.argv[1:] == ["wait"]:
    print("ready", flush=True)
    time.sleep(600)
print(sys.argv[1:], os.getcwd(), os.environ["SAID"], "torch" in sys.modules, "unequal" in sys.modules)
print(sys.stdin.read(), file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID", "this")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_it_has_words_folder_environment_streams_and_status(folder: Path) -> None:
    done = subprocess.run(
        ["python", "-m", "program", "a", "b"], input="in", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (3, "in\n")
    assert done.stdout == f"['a', 'b'] {folder} this True False\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_end_it(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(["python", "-m", "program", "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(60) == -number
        # The end of its output: nobody holds it open.
        assert process.stdout.read() == ""
