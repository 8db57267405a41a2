"""A refusal of the library is one line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unequal.errors import UserError


def refusal(call: Callable[..., Any], *arguments: Any, **changes: Any) -> str:
    """The line of the UserError that a call raises."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def unnumbered(line: str, path: Path) -> str:
    """A refusal of settings without the file and the number of the line."""
    return re.sub(rf"^{re.escape(str(path))}(:\d+)?: ", "", line)
