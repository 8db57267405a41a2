"""How many threads share the sums and products of a process on a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def threads(count: int) -> Iterator[None]:
    """As many threads within the block, for tensors and for arrays, whatever cores and engine there are.

    Their number decides how a sum rounds, so it stands in the settings. One is the quickest for small networks where
    stages run side by side, or the machine does other things: threads that share a step wait for the last of them.
    """
    before = torch.get_num_threads()
    with threadpool_limits(count):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
