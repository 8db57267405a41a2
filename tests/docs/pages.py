"""The pages of the documentation, and what tests take out of them: links, words in code type, fenced blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "studies").rglob("README.md"))]
#: Pages that are carried out in a copy of the project, in test_adding.py.
HOW_TO = sorted((ROOT / "docs").glob("add-*.md"))
FENCE = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it belongs to where one is named, and where it stands."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str

    @property
    def id(self) -> str:
        return f"{named(self.page)}:{self.line}"


def named(page: Path) -> str:
    """A page's path in the project, as it names a test."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """The fenced blocks of a page that are in one of these languages, in order."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found["language"] in languages:
            line = text.count("\n", 0, found.start()) + 1
            yield Block(page, line, found["language"], found["title"], found["text"])


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    """Targets of a page's links and pictures within the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in found if not target.startswith(("http://", "https://"))]


def code_words(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


each_page = pytest.mark.parametrize("page", PAGES, ids=named)


def each_block(*languages: str) -> pytest.MarkDecorator:
    """One test a block of the pages, in one of these languages; pages that are carried out are left out."""
    found = [block for page in PAGES if page not in HOW_TO for block in blocks(page, *languages)]
    return pytest.mark.parametrize("block", found, ids=lambda block: block.id)
