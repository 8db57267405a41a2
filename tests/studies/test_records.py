"""Every study that has results is a record: small, and with the commit whose code made it."""

import re
import subprocess
from pathlib import Path

import pytest

from unequal.runtime.files import read_json

ROOT = Path(__file__).parents[2]
STUDIES = sorted(folder for folder in (ROOT / "studies").iterdir() if any(folder.rglob("results/record.json")))
RECORDS = sorted((ROOT / "studies").rglob("results/record.json"))
#: The fields of a record and their types.
FIELDS = {
    "commit": str,
    "other_commits": dict,
    "date": str,
    "versions": dict,
    "device": str,
    "hours": float | None,
    "hours_note": str,
    "data": dict,
    "images": int,
}
#: At most that many files and bytes of results in a study.
FILES, BYTES = 15, 1_000_000


def named(path: Path) -> str:
    return path.relative_to(ROOT / "studies").as_posix()


def git(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", RECORDS, ids=named)
def test_a_record_has_every_field(path):
    record = read_json(path)
    assert record.keys() == FIELDS.keys()
    assert [name for name, kind in FIELDS.items() if not isinstance(record[name], kind)] == []
    assert {"python", "torch", "diffusers"} <= record["versions"].keys()
    assert record["data"].keys() == {"source", "n", "shape", "sha256"}
    assert re.fullmatch(r"[0-9a-f]{64}", record["data"]["sha256"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])


@pytest.mark.parametrize("path", RECORDS, ids=named)
def test_the_commits_of_a_record_hold_the_study(path):
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history")
    record, folder = read_json(path), path.parents[1].relative_to(ROOT).as_posix()
    for commit in (record["commit"], *record["other_commits"]):
        assert git("cat-file", "-e", f"{commit}:{folder}/params.yaml").returncode == 0, commit


@pytest.mark.parametrize("study", STUDIES, ids=named)
def test_results_of_a_study_are_few_and_small(study):
    tracked = git("ls-files", "-z", "--", str(study)).stdout.split("\0")
    results = [ROOT / name for name in tracked if "/results/" in name]
    assert 1 <= len(results) <= FILES
    assert sum(file.stat().st_size for file in results if file.exists()) <= BYTES


def test_studies_that_were_run_have_a_record():
    assert len(RECORDS) >= 10
    folders = {file.parent for file in (ROOT / "studies").rglob("results/findings.json")}
    assert folders == {path.parent for path in RECORDS}
