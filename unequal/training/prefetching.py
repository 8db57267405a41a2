"""What the next step needs from memory or disk, gathered by a thread while this step is computed."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

#: Images, noise, and labels where there are any.
Gathered = tuple[Tensor, Tensor, Tensor | None]


class Prefetcher:
    """Gathers each part of a step one step ahead of those who ask for them in order; others wait.

    Args:
        gather: (step, part of the batch) → tensors, a pure function of both.
    """

    def __init__(self, gather: Callable[[int, slice], Gathered]) -> None:
        self.gather = gather
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead")
        self.coming: dict[tuple[int, int | None], Future[Gathered]] = {}

    def get(self, step: int, part: slice) -> Gathered:
        """A part of a step; the same part of the next one is begun."""
        coming = self.coming.pop((step, part.start), None)
        found = self.gather(step, part) if coming is None else coming.result()
        self.coming[step + 1, part.start] = self.pool.submit(self.gather, step + 1, part)
        return found
