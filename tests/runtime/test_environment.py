"""Streams of a program: any terminal's encoding will do, and a reader that leaves ends nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEAKS = """
from unequal.runtime.environment import prepare_streams
prepare_streams()
import sys, time
from pathlib import Path
for stream in (sys.stdout, sys.stderr):
    print("log-SNR λ ≥ 0 …", file=stream, flush=True)
if sys.argv[1:]:
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    for stream in (sys.stdout, sys.stderr):
        print("more", file=stream, flush=True)
file = open("file.txt", "x")
file.write(str(file.fileno()))
"""


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def spoken(folder: Path, redirected: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Output of a program, in a shell that redirects its streams."""
    command = ["bash", "-c", f'"$0" -c "$1" {redirected}', sys.executable, SPEAKS]
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True, check=False
    )


def waiting(folder: Path, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    """A program that says more once there is a file `left`."""
    return subprocess.Popen(
        [sys.executable, "-c", SPEAKS, "left"], cwd=folder, env=ENVIRONMENT, stdout=stdout, stderr=stderr
    )


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-8"])
def test_characters_that_a_terminal_lacks_are_escaped(tmp_path, encoding):
    done = spoken(tmp_path, PYTHONIOENCODING=encoding)
    expected = "log-SNR λ ≥ 0 …\n".encode(encoding, "backslashreplace").decode()
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, expected)


@pytest.mark.parametrize("redirected", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere_and_no_file_takes_their_place(tmp_path, redirected):
    assert spoken(tmp_path, redirected).returncode == 0
    assert int((tmp_path / "file.txt").read_text()) > 2


def test_a_reader_that_leaves_ends_nothing(tmp_path):
    process = waiting(tmp_path, subprocess.PIPE, subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    for stream in (process.stdout, process.stderr):
        stream.readline()
        stream.close()
    (tmp_path / "left").touch()
    assert process.wait(60) == 0
    assert (tmp_path / "file.txt").exists()


def test_a_terminal_that_is_closed_ends_nothing(tmp_path):
    ours, theirs = os.openpty()
    process = waiting(tmp_path, theirs, theirs)
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    (tmp_path / "left").touch()
    assert process.wait(60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_full_disk_is_an_error(tmp_path):
    assert "No space left on device" in spoken(tmp_path, "> /dev/full").stderr
