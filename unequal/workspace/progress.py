"""How far something is, on a terminal."""

from typing import Any

from tqdm import tqdm


def image_bar(total: int, shown: bool) -> "tqdm[Any]":
    """A bar that counts images; where it is to be shown, it still is none outside a terminal."""
    return tqdm(total=total, unit="img", unit_scale=True, disable=None if shown else True)
