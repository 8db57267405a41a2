"""`unequal plots`: a page of what was drawn, or one line where there is nothing."""

import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from commands import done, refused

from unequal.data.grids import png_of
from unequal.pipeline.running import make_project


def test_without_figures_there_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    Path("dvc.yaml").write_text("stages: {}\nplots:\n  - losses.csv: {x: step, y: loss}\n")
    assert "nothing to draw yet; run `snakemake --cores all` or `dvc repro` first" in refused("plots")
    assert not Path("dvc_plots").exists()
    Path("losses.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
    assert done("plots").splitlines()[-1] == "dvc_plots/index.html"
    assert '"loss": "0.25"' in Path("dvc_plots/index.html").read_text(encoding="utf-8")


def test_pictures_are_within_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    Path("dvc.yaml").write_text("stages: {}\nplots:\n  - shown/picture.png\n")
    Path("shown").mkdir()
    Path("shown/picture.png").write_bytes(picture := png_of(np.full((1, 2, 3), 7, np.uint8)))
    done("plots")
    page = Path("dvc_plots/index.html").read_text(encoding="utf-8").rpartition("</head>")[2]
    assert [b64decode(one) for one in re.findall(r'src="data:image/png;base64,([^"]+)"', page)] == [picture]
    assert page.count("<img ") == 1
