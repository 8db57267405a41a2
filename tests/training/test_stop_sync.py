"""Processes that share a training agree on when to stop."""

from typing import Any

import pytest
from torch import Tensor, device

from unequal.training import stop_sync
from unequal.training.stop_sync import StopSync


class Two:
    num_processes, device = 2, device("cpu")

    def __init__(self) -> None:
        self.exchanges = 0

    def reduce(self, tensor: Tensor) -> Tensor:
        self.exchanges += 1
        return 2 * tensor


@pytest.mark.parametrize(("seconds", "exchanges"), [(5.0, 40), (1.0, 40), (0.3, 14), (0.0, 4)])
def test_after_slow_steps_processes_exchange_every_time(seconds: float, exchanges: int, monkeypatch):
    both: Any = Two()
    now = [0.0]
    monkeypatch.setattr(stop_sync.time, "monotonic", lambda: now[0])
    of_both = StopSync(both, 100)
    for step in range(101, 141):
        now[0] += seconds
        assert not of_both.stops(step, lambda: False)
    assert both.exchanges == exchanges


def test_whoever_is_asked_stops_both_within_ten_steps() -> None:
    both: Any = Two()
    of_both = StopSync(both, 0)
    assert any(of_both.stops(step, lambda: True) for step in range(1, 11))


def test_one_process_stops_when_it_is_asked() -> None:
    alone: Any = Two()
    alone.num_processes = 1
    assert StopSync(alone, 0).stops(1, lambda: True) and not alone.exchanges
