"""Fates of trainings after a rung, as the judge says them and tags the trainings' own runs."""

import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from unequal.files import read_json, write_json
from unequal.race.bracket import START, measured, rungs
from unequal.race.params import RaceParams
from unequal.race.stages import judge_rung
from unequal.race.standing import Candidate

TINY = Path(__file__).parent / "tiny/params.yaml"
#: FID of an arm in the first rung; None: it has collapsed.
FID = {"experts": 10.0, "min_snr": 20.0, "uniform": 30.0, "slots": 40.0, "explodes": None}


class Tags:
    """A tracker that keeps tags alone."""

    given: ClassVar[dict[str, dict[str, dict[str, str]]]] = {}

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def sibling_tags(self, stage: str, tags: dict[str, dict[str, str]]) -> None:
        self.given[stage] = tags

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_the_judge_says_who_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Tags)
    shutil.copy(TINY, tmp_path)
    race = RaceParams.read(TINY).race
    assert race is not None
    first = rungs(race, {})[0]
    for one in first.candidates:
        fid = FID[one.arm]
        document = {"arm": one.arm, "rate": one.rate, "block": 100, "fid": fid, "collapsed": None if fid else "NaN"}
        write_json(measured(first.name, one, 100), document)
    write_json(Path(START), {})
    write_json(Path("results/fid/reference.json"), {"noise_against_real": {"fid": 1000.0}})
    judge_rung.main.main(["--rung", "short", "--after", START], standalone_mode=False)
    singles, experts = (Tags.given[name] for name in ("train_arm", "train_experts"))
    assert {name: tags["fate"] for name, tags in experts.items()} == {
        "experts_x1_block_100": "goes on",
        "experts_x2_block_100": "out",  # of equal FID, the first rate leads
    }
    assert {singles[f"{arm}_x1_block_100"]["fate"] for arm in ("min_snr", "slots")} == {"out"}
    assert singles["uniform_x1_block_100"]["fate"] == "goes on"
    assert singles["explodes_x1_block_100"]["fate"] == "collapsed"
    standing = read_json(Path("results/race/standing/short.json"))["standing"]
    assert standing[0] == {"arm": "experts", "rate": 1.0, "fid": pytest.approx(10.0), "trainings": 1, "fate": "goes on"}
    assert Candidate(standing[-1]["arm"], standing[-1]["rate"]).arm == "explodes"
