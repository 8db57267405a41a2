"""Each training of the tests stands for a process of its own."""

from collections.abc import Iterator

import pytest
from accelerate.state import AcceleratorState


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
