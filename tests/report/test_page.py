"""The page: one file, all text escaped, a place for every link."""

import base64
from html.parser import HTMLParser
from pathlib import Path

from unequal.report.captions import CAPTIONS
from unequal.report.page import Drawing, Report, Table, render


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text of table cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(folder: Path, text: str = "plain") -> str:
    first, *further = (Drawing(name, (1, 1), lambda _: None, *said) for name, said in CAPTIONS.items())
    tables = [Table(f"table {text}", ("a", "b"), [(f"cell {text}", "1")], f"note {text}", [(f"end {text}", "2")])]
    report = Report(
        f"title {text}", f"lead {text}", tables, {f"data {text}": f"facts {text}"}, further, {},
        facts=f"data of {text}", commands=[f"run {text}"], overview=[first],
    )  # fmt: skip
    return render(report, folder)


def test_the_page_needs_no_other_file_and_every_link_has_its_place(tmp_path: Path) -> None:
    reader = Reader(page(tmp_path))
    assert reader.open == []
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in reader.tags}
    sources = [attributes["src"] or "" for _, attributes in reader.tags if "src" in attributes]
    contents = [base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in sources]
    assert contents == [(tmp_path / f"{name}.png").read_bytes() for name in CAPTIONS]
    assert "http" not in "".join(str(attributes) for _, attributes in reader.tags)
    places = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    links = [attributes["href"] for tag, attributes in reader.tags if tag == "a"]
    assert len(places) == len(set(places))
    assert len(links) == len(CAPTIONS) + 4
    assert {str(link) for link in links} <= {f"#{place}" for place in places}


def test_all_text_is_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert('&')</script>"
    reader = Reader(page(tmp_path, hostile))
    assert "script" not in {tag for tag, _ in reader.tags}
    shown = "".join(reader.text)
    for prefix in ("table ", "cell ", "note ", "end ", "data ", "facts ", "data of ", "run "):
        assert prefix + hostile in shown
