"""Planted faults: each can be planted, the nearest tests are asked first, and what notices a fault is named."""

from pathlib import Path

import pytest

from benchmarks.faults import Fault, first_failure, near, noticed_by, place_of, planted, read_faults
from benchmarks.projects import ROOT
from unequal.errors import UserError

FAULT = Fault(about="formulas", file="unequal/sums.py", old="a + b", new="a - b", fault="a sum is a difference")
TEST = "from unequal.sums import add\n\n\ndef test_it():\n    assert add(1, {0}) == {1}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A module, a test that mirrors it and sees nothing, one that imports it and sees the fault, one that does not."""
    files = {
        "unequal/__init__.py": "",
        "unequal/sums.py": "def add(a, b):\n    return a + b\n",
        "tests/test_sums.py": TEST.format(0, 1),
        "tests/test_another.py": TEST.format(2, 3),
        "tests/test_unlike.py": "def test_it():\n    pass\n",
        "studies/.keep": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.fault)
def test_each_fault_can_be_planted_and_has_tests_nearby(fault: Fault) -> None:
    assert fault.new != fault.old
    assert near(place_of(fault, ROOT), ROOT)


def test_there_are_faults_of_every_kind() -> None:
    kinds = [fault.about for fault in read_faults()]
    assert len(kinds) >= 30
    assert {kind: kinds.count(kind) >= 4 for kind in kinds} == dict.fromkeys(("formulas", "resuming", "settings"), True)


def test_a_fault_stands_in_the_file_for_a_while(project: Path) -> None:
    file = place_of(FAULT, project)
    sound = file.read_text()
    with planted(FAULT, file):
        assert file.read_text() == sound.replace("a + b", "a - b")
    assert file.read_text() == sound


def test_a_file_that_was_moved_is_found_by_its_text(project: Path) -> None:
    (project / "unequal/sums.py").rename(project / "unequal/adding.py")
    assert place_of(FAULT, project) == project / "unequal/adding.py"
    (project / "unequal/again.py").write_text("a + b")
    with pytest.raises(UserError, match=r"must stand once; it stands unequal/adding\.py, unequal/again\.py"):
        place_of(FAULT, project)


def test_tests_that_mirror_a_module_come_first(project: Path) -> None:
    assert near(project / "unequal/sums.py", project) == ["tests/test_sums.py", "tests/test_another.py"]


@pytest.mark.slow
def test_the_test_that_notices_a_fault_is_named(project: Path) -> None:
    assert first_failure(project, near(project / "unequal/sums.py", project), "") is None
    assert noticed_by(FAULT, project, only_near=True, only_fast=True) == "tests/test_another.py::test_it"
