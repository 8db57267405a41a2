"""Figures on the pages are those of the committed results."""

import re
from pathlib import Path

import pytest
from pages import README, ROOT

from benchmarks.table import table
from unequal.errors import UserError
from unequal.files import read_json
from unequal.settings.params.pipeline import Params
from unequal.tools.readme import filled, findings, results_table

#: Bytes of README.md at most: what a newcomer reads in one go.
README_BYTES = 10_000


def test_readme_is_short():
    assert len(README.read_bytes()) <= README_BYTES


def test_readme_shows_the_figures_of_the_committed_run():
    text = README.read_text(encoding="utf-8")
    expected = filled(filled(text, "results", results_table(ROOT / "results")), "findings", findings(ROOT / "results"))
    assert text == expected, "run: python -m unequal.tools.readme"


def test_a_page_without_the_place_is_refused():
    with pytest.raises(UserError, match="no place of that name"):
        filled("<!-- results -->\n1\n<!-- /other -->", "results", "2")


def test_readme_names_the_conditions_of_the_run():
    text = " ".join(README.read_text(encoding="utf-8").split())
    params, base = Params.read(ROOT / "params.yaml"), read_json(ROOT / "results/metrics/train_base.json")
    trained = read_json(ROOT / "results/metrics/data.json")["split"]["train"][1]
    for condition in (
        f"({trained:,} training images of {params.data.image_size} × {params.data.image_size} pixels)",
        f"a UNet of {base['parameters'] / 1e6:.2f} M parameters, T = {params.schedule.timesteps}",
        f"a base of {base['images_seen']:,} images",
        f"{params.evaluation.samples} samples ({params.sampling.steps} DDIM steps, the same noise for all)",
    ):
        assert condition in text
    assert len(params.evaluation.seeds) == 2  # "over two sampling seeds"
    assert (len(params.groups.ids), params.groups.min_ratio) == (4, 0.5)  # "four groups … 50 to 100 %"
    assert params.slots.count == 10  # "ten slots of equal loss"


def test_the_page_on_performance_shows_the_recorded_benchmarks():
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert table("cpu", ROOT / "results/benchmarks") in page, "run: python -m benchmarks.table"


def test_pages_say_how_long_the_recorded_first_run_took():
    first = read_json(ROOT / "results/benchmarks/first_run.json")
    seconds = first["seconds"]
    minutes = round(seconds["all"] / 60)
    assert f"It took {minutes} minutes on two cores" in README.read_text(encoding="utf-8")
    names = {"stages' starts": "starts", "stages' work": "work", "stages' ends": "the rest"}
    parts = ", ".join(
        f"{names.get(part, part)} {100 * one / seconds['all']:.0f} %" for part, one in seconds.items() if part != "all"
    )
    page = " ".join((ROOT / "docs/performance.md").read_text(encoding="utf-8").split())
    assert f"it took {minutes} minutes for {first['stages']} stages: {parts}" in page
    assert first["cores"] == 2


def test_the_page_on_resuming_shows_the_recorded_kills():
    page = " ".join((ROOT / "docs/resuming.md").read_text(encoding="utf-8").split())
    kills = read_json(ROOT / "results/benchmarks/kill.json")
    kinds, signals = kills["kinds"], kills["signals"]
    by_themselves = kinds["warm"]["kills"] + kinds["command"]["kills"]
    for sentence in (
        f"{kills['kills']} kills: {signals['SIGKILL']} by SIGKILL and {signals['SIGTERM']} by SIGTERM.",
        f"{by_themselves} hit stages run by themselves; {kinds['dvc']['kills']} hit stages under `dvc repro`, "
        f"{kinds['dvc']['with_the_engine']} of them together with DVC itself",
        f"{kinds['snakemake']['kills']} hit stages under `snakemake --retries`.",
        f"Of {kills['compared_files']} files compared, {len(kills['differing_files'])} differed",
    ):
        assert sentence in page


def test_pictures_are_few():
    assert len(re.findall(r"!\[", README.read_text(encoding="utf-8"))) == 1
    assert Path(ROOT / "results/pictures/loss_profile.png").is_file()
