"""Signals to stop that wait until a state is whole, and the number of threads."""

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from unequal.runtime.processes import stop_deferred, threads


class Ended(Exception):
    pass


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT])
def number(request):

    def end(*_: object) -> None:
        raise Ended

    before = signal.signal(request.param, end)
    yield request.param
    signal.signal(request.param, before)


def within(number: int, work: Callable[[Callable[[], bool]], None]) -> None:
    with stop_deferred() as asked:
        assert not asked()
        os.kill(os.getpid(), number)
        work(asked)


def test_a_signal_waits_until_the_block_is_left(number):
    done: list[bool] = []
    with pytest.raises(Ended):
        within(number, lambda asked: done.append(asked()))
    assert done == [True]


@pytest.mark.parametrize(("number", "waits"), [(signal.SIGTERM, True), (signal.SIGINT, False)], indirect=["number"])
def test_of_a_second_signal_only_ctrl_c_does_not_wait(number, waits):
    done: list[str] = []

    def work(_: object) -> None:
        os.kill(os.getpid(), number)
        done.append("reached")

    with pytest.raises(Ended):
        within(number, work)
    assert bool(done) == waits


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["in a script's background", "nohup"])
def test_a_signal_that_a_shell_has_ignored_stops_nothing(number):
    done, before = list[bool](), signal.signal(number, signal.SIG_IGN)
    try:
        within(number, lambda asked: done.append(asked()))
        assert done == [False]
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_an_error_goes_before_the_signal(number):
    with pytest.raises(ZeroDivisionError):
        within(number, lambda _: divmod(1, 0) and None)


def test_without_a_signal_the_handlers_are_as_before(number):
    with stop_deferred():
        pass
    with pytest.raises(Ended):
        os.kill(os.getpid(), number)


def pools() -> set[int]:
    return {torch.get_num_threads(), *(one["num_threads"] for one in threadpool_info())}


@pytest.mark.parametrize("count", [1, 3])
def test_all_libraries_have_as_many_threads_within_the_block(count):
    np.ones((2, 2)) @ np.ones((2, 2))  # which loads a library of its own
    before = pools()
    within: list[set[int]] = []
    with pytest.raises(ZeroDivisionError), threads(count):
        divmod(1, within.append(pools()) or 0)
    assert within == [{count}]
    assert pools() == before
