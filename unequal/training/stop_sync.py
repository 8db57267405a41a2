"""Agreement of a training's processes on when to stop: a signal may reach one of them alone, or earlier."""

import time
from collections.abc import Callable

import torch
from accelerate import Accelerator

#: Most steps, and about the most seconds, between two exchanges. A cluster may kill 30 s after it has asked to stop,
#: and the state has to be saved by then.
STEPS_BETWEEN, SECONDS_BETWEEN = 10, 1.0


class StopSync:
    """Agreement of all processes of a training on when to stop.

    Attributes:
        last, at: the step, and the moment, of the last exchange.
        next: the step after which they exchange again, the same in all of them.
    """

    def __init__(self, accelerator: Accelerator, step: int) -> None:
        self.accelerator, self.last, self.at, self.next = accelerator, step, time.monotonic(), step + 1

    def stops(self, step: int, asked: Callable[[], bool]) -> bool:
        """Whether to stop after this step; `asked` says whether this process was asked to."""
        if self.accelerator.num_processes == 1:
            return asked()
        if step < self.next:
            return False
        seconds = (time.monotonic() - self.at) / (step - self.last)
        ours = torch.tensor([float(asked()), seconds], device=self.accelerator.device)
        asking, seconds = self.accelerator.reduce(ours).tolist()
        # The mean over processes, so that all compute the same number of steps.
        between = int(SECONDS_BETWEEN * self.accelerator.num_processes / max(seconds, 1e-9))
        self.last, self.at, self.next = step, time.monotonic(), step + min(max(between, 1), STEPS_BETWEEN)
        return asking > 0
