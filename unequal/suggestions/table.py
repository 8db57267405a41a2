"""Suggestions as text for a terminal."""

from collections.abc import Sequence
from textwrap import fill

from unequal.suggestions.sections import Section

WIDTH = 120


def page(head: str, parts: Sequence[Section]) -> str:
    """All sections below a line on what was measured."""
    return "\n\n".join([fill(head, WIDTH), *map(paragraph, parts)])


def paragraph(section: Section) -> str:
    """One section: its title, its rows in columns, its two sentences."""
    widths = [max(map(len, column)) for column in zip(*section.rows, strict=True)]
    lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in section.rows]
    return "\n".join([section.title, *lines, wrapped("Why", section.reason), wrapped("But", section.caveat)])


def wrapped(word: str, sentence: str) -> str:
    """A sentence behind a word, in lines of one width."""
    return fill(f"{word}: {sentence}", WIDTH, initial_indent="  ", subsequent_indent="       ")
