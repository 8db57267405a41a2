"""Files and settings that pages name exist. The site's build checks links."""

import re
from typing import Any, get_args, get_origin

from pages import PAGES, ROOT, code_words, each_page, links, named

from benchmarks.table import table
from unequal.settings.complaints import sections_in
from unequal.settings.params import Params
from unequal.settings.strict import read_yaml

#: Folders whose files are in git.
FOLDERS = ("benchmarks", "docs", "presets", "profiles", "stages", "studies", "tests", "unequal")


def test_every_page_is_listed_in_the_index():
    index = ROOT / "docs/README.md"
    listed = {(index.parent / target).resolve() for target in links(index)}
    assert [named(page) for page in PAGES if page.parent == index.parent and page not in {index, *listed}] == []


@each_page
def test_files_that_are_named_exist(page):
    named_files = [word for word in code_words(page) if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]*", word)]
    places = (ROOT, page.parent)  # a study names its own files from its folder on
    assert [name for name in named_files if not any((place / name).exists() for place in places)] == []


@each_page
def test_settings_that_are_named_exist(page):
    keys = [word for word in code_words(page) if re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)+", word)]
    sections = [key for key in keys if key.split(".")[0] in Params.model_fields]
    assert [key for key in sections if not known(key.split("."), Params)] == []


def known(parts: list[str], *annotations: Any) -> bool:
    """Return True where a section that the annotations allow has the key with these parts."""
    if not parts:
        return True
    below: list[Any] = []
    for annotation in annotations:
        if get_origin(annotation) is dict:
            below.append(get_args(annotation)[1])
        else:
            fields = [section.model_fields for section in sections_in(annotation)]
            below += [field[parts[0]].annotation for field in fields if parts[0] in field]
    return bool(below) and known(parts[1:], *below)


def test_every_section_of_params_is_described():
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert [name for name in read_yaml(ROOT / "presets/digits.yaml") if f"\n| `{name}` |" not in page] == []


def test_a_page_shows_the_recorded_benchmarks():
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert table("cpu", ROOT / "benchmarks") in page, "run: python -m benchmarks --table"
