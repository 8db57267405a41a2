"""A pickle that shows whether anyone unpickles it."""

from pathlib import Path
from typing import Any


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path = Path("unpickled")) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)
