"""DVC's plots as one page that needs no network: `unequal plots`."""

import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from unequal.errors import UserError, say
from unequal.runtime.files import write_bytes

#: The libraries that draw DVC's plots, in loading order. Snakemake installs them for its own report.
LIBRARIES = ("vega", "vega-lite", "vega-embed")
#: Pattern of a plot with figures on DVC's page, or of a picture; a plot without figures is `{}`.
SHOWN = re.compile(r"var spec = \{[^}]|<img ")
#: Pattern of the file of a picture on DVC's page.
PICTURE = re.compile(r'(?<=<img src=")[^"]+(?=")')
HEAD = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Plots</title>\n'


def write_plots(page: Path, revisions: Sequence[str]) -> None:
    """Write the page of `dvc plots show`, or of `dvc plots diff` where commits are named.

    Raises UserError where DVC cannot draw, or there is nothing to draw yet.
    """
    with tempfile.TemporaryDirectory() as folder:
        template, drawn = Path(folder, "template.html"), Path(folder, "index.html")
        template.write_text(f"{HEAD}{scripts()}</head><body>{{plot_divs}}</body></html>\n", encoding="utf-8")
        words = [sys.executable, "-m", "dvc", "plots", "diff" if revisions else "show", *revisions]
        words += ["--html-template", str(template), "--out", folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            raise UserError(f"dvc plots: {errors[0].removeprefix('ERROR: ') if errors else done.stderr.strip()}")
        if not drawn.exists() or not SHOWN.search(drawn.read_text(encoding="utf-8").rpartition("</head>")[2]):
            raise UserError("dvc plots: nothing to draw yet; run `snakemake --cores all` or `dvc repro` first")
        say(*done.stderr.splitlines(), err=True)
        write_bytes(page, with_pictures(drawn).encode())
    say(page)


def with_pictures(page: Path) -> str:
    """Return DVC's page with the pictures inside, which it leaves in files."""

    def inside(found: re.Match[str]) -> str:
        return f"data:image/png;base64,{base64.b64encode((page.parent / found[0]).read_bytes()).decode()}"

    return PICTURE.sub(inside, page.read_text(encoding="utf-8"))


def scripts() -> str:
    """HTML elements that embed the libraries in a page's head."""
    from snakemake.assets import Assets

    return "".join(f"<script>{Assets.get_content(f'{name}/{name}.js')}</script>\n" for name in LIBRARIES)
