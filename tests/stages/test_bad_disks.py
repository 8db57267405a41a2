"""Disks and places that take no output: one line that names the path, and what stood there before stays."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from refusals import EARLIER, Bad, check_refused, in_process, table
from small_inputs import write_settings

from stages import prepare_data

#: How lines on the images begin, which come before a refusal.
NOTES = "data: "


@pytest.fixture(autouse=True)
def _settings(project):
    write_settings()


def file_at(place: str) -> Callable[[], None]:

    def spoil() -> None:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text("mine")

    return spoil


def link_at(place: str) -> Callable[[], None]:

    def spoil() -> None:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).symlink_to("nowhere/at/all")

    return spoil


PLACES: dict[str, Bad] = {
    "a file for the outputs": Bad(file_at("artifacts"), "artifacts"),
    "a link a folder deeper": Bad(link_at("results/metrics"), "results/metrics"),
    "a file for the states": Bad(file_at("work"), "work: a folder of resumable states is to be here; move what"),
    "a link for the states": Bad(link_at("work"), "work: a folder of resumable states is to be here; move what"),
}


@table(PLACES)
def test_what_stands_in_the_way_is_named_and_left(bad):
    bad.spoil()
    check_refused(prepare_data, said=bad.said, notes=NOTES)


@contextmanager
def refusing(call: str, number: int, below: str) -> Iterator[None]:
    """Every `os` call of that name that touches a path below a folder fails so."""
    done = getattr(os, call)

    def refuse(*args: Any, **more: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{args[0]}") if call == "fsync" else args[-1 if call == "replace" else 0]
        if f"/{below}/" in f"/{path}":
            raise OSError(number, os.strerror(number), str(path))
        return done(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, refuse)
        yield


#: Calls that the disk refuses, below which folder, and its error.
REFUSALS = [
    *((call, below, errno.ENOSPC) for call in ("mkdir", "replace", "fsync") for below in ("work", "artifacts")),
    ("replace", "artifacts", errno.EROFS),
]


@pytest.mark.parametrize(("call", "below", "number"), REFUSALS)
def test_a_disk_that_refuses_is_named_in_one_line(call, below, number):
    with refusing(call, number, below):
        check_refused(prepare_data, said=f": {os.strerror(number)}", outputs=["results/metrics/data.json"], notes=NOTES)
    assert in_process(prepare_data).status == 0, "with room again, the same command goes on"
    assert Path("results/metrics/data.json").read_text() != EARLIER


@pytest.mark.parametrize("largest", [0, 100_000])
def test_no_larger_file_than_allowed(largest):
    """The system itself refuses, as with `ulimit -f` or a quota."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        check_refused(prepare_data, said=": File too large", notes=NOTES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not any(Path("artifacts").glob("data*"))
