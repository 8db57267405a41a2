"""The tests' own Slurm beside a machine's: a link that killed tests have left is replaced, nothing else is touched."""

from collections.abc import Callable
from pathlib import Path

import one_node
import pytest


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(one_node, "DEFAULT_PLACE", tmp_path / "etc/slurm.conf")
    monkeypatch.setattr(one_node.shutil, "which", lambda name: name)
    monkeypatch.setattr(one_node.os, "geteuid", lambda: 0)
    (tmp_path / "etc").mkdir()
    return one_node.DEFAULT_PLACE


def configuration(folder: Path) -> Path:
    folder.mkdir()
    (folder / one_node.CONFIGURATION).write_text("ClusterName=unequal")
    return folder / one_node.CONFIGURATION


def file(place: Path) -> None:
    place.write_text("ClusterName=theirs")


def link(place: Path) -> None:
    file(place.with_name("theirs.conf"))
    place.symlink_to(place.with_name("theirs.conf"))


def link_to_a_disk_that_is_away(place: Path) -> None:
    place.symlink_to("/mnt/away/slurm.conf")


@pytest.mark.parametrize("theirs", [file, link, link_to_a_disk_that_is_away])
def test_a_configuration_of_the_machine_is_left_alone(
    place: Path, tmp_path: Path, theirs: Callable[[Path], None]
) -> None:
    theirs(place)
    before = place.lstat()
    assert one_node.missing() == f"{place}: this machine has a Slurm of its own"
    with pytest.raises(FileExistsError), one_node.found_by_jobs(configuration(tmp_path / "own")):
        pass
    assert place.lstat() == before
