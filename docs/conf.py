"""Settings of Sphinx: README, docs and studies as a site, from the Markdown that is read in the repository.

`python3 -m uv run --group docs sphinx-build -c docs . site` writes it to `site/index.html`. CI builds it
with -W: a link to a page, a heading or a file that does not exist is an error.
"""

from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
project = "unequal"
author = copyright = "the unequal developers"
extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.mermaid"]
root_doc = "README"
templates_path = ["templates"]
html_additional_pages = {"index": "index.html"}  # leads to the first page
include_patterns = ["README.md", "docs/**.md", "studies/**.md"]
exclude_patterns = ["docs/example/**"]  # tables that a page includes
html_theme = "furo"
html_title = "unequal"
html_static_path = ["style"]
html_css_files = ["site.css"]
myst_heading_anchors = 4  # as links in the pages expect them
myst_fence_as_directive = ["mermaid"]
#: Pages that a reader follows from the first run to the model taken away, where they exist.
TOUR = ("running", "own-images", "models", "findings", "compare", "profiling", "suggesting", "library")
TOCTREE = """
```{{toctree}}
:hidden:
:caption: {caption}

{pages}
```
"""


def contents() -> str:
    """The site's contents as hidden toctrees, which Markdown pages of a repository do not have."""
    pages = {page.stem: f"docs/{page.stem}" for page in sorted((ROOT / "docs").glob("*.md"))}
    own = [page for name, page in pages.items() if name.startswith("add-")]
    tour = [pages[name] for name in TOUR if name in pages]
    reference = [page for page in pages.values() if page not in (*own, *tour)]
    studies = [str(page.relative_to(ROOT).with_suffix("")) for page in sorted((ROOT / "studies").rglob("README.md"))]
    parts = {"Tour": tour, "Reference": reference, "Add your own": own, "Studies": studies}
    return "\n".join(TOCTREE.format(caption=caption, pages="\n".join(entries)) for caption, entries in parts.items())


def add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Append the contents to the first page."""
    if page == root_doc:
        source[0] += contents()


def setup(app: Sphinx) -> None:
    """Register what adds the contents."""
    app.connect("source-read", add_contents)
