"""A refusal of the library is one line."""

from collections.abc import Callable
from typing import Any

import pytest

from unequal.errors import UserError


def refusal(call: Callable[..., Any], *arguments: Any, **changes: Any) -> str:
    """The line of the UserError that a call raises."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)
