"""The stage on a small made-up project."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result
from html_tables import uneven_tables
from refusals import Bad, check_refused, table
from stage_project import RUNTIME

import stages.report
from stages.report import main
from unequal.data.grids import png_of
from unequal.evaluation.loss_profile import Errors
from unequal.evaluation.profiles import write_profile
from unequal.runtime.files import content_hash, write_bytes, write_csv, write_json, write_npz

pytestmark = pytest.mark.slow

T = 40
#: What the engine takes for the run.
SECONDS = 7200.0
SLOTS = [[0, 4], [5, 14], [15, 39]]
#: FID and sampling FLOPs of every variant, and of one that is none.
SCORES = (
    ("base", 10, 100),
    ("longer", 8, 100),
    ("stratified", 9, 100),
    ("slot_2", 20, 100),
    ("experts_unpruned", 6, 100),
    ("experts_pruned", 9, 89),
    ("orphan", 1, 1),
)
PARAMS: dict[str, Any] = {
    "profiled_models": ["base", "longer", "slot_2", "experts_unpruned", "mixed"],
    "scored_models": ["base", "longer", "stratified", "slot_2", "experts_unpruned", "experts_pruned"],
    "finetune_recipes": ["stratified"],
    "slots": {"finetune": [2]},
    "groups": {"ids": [0, 1]},
    "runtime": RUNTIME | {"price_an_hour": 3.0},
}


class Silence:
    """Takes the tracker's place; keeps only what is logged with the parent run."""

    parent: ClassVar[dict[str, float]] = {}

    def __init__(self, *_: Any, active: bool) -> None:
        self.parent.clear()

    def parent_results(self, metrics: dict[str, float]) -> None:
        self.parent.update(metrics)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def score(fid: float, flops: int) -> dict[str, Any]:
    return {
        "fid_mean": fid, "fid_sd": 0.1, "kid_mean": 0.01, "kid_sd": 0.001, "fid_half_mean": fid + 1,
        "precision_mean": 0.9, "precision_sd": 0.01, "recall_mean": 0.8, "recall_sd": 0.01,
        "images_seen": 100, "training_flops": 1000,
        "sampling_flops_per_image": flops, "parameters": 10, "parameters_per_step": 10,
        "samples_per_seed": 64, "sampling_seeds": [0, 1],
        "extractor": "classifier", "features": 4, "reference": "training images", "singular_covariance": False,
        "sampling": {"steps": [39, 20, 0], "spacing": "uniform", "eta": 0.0, "clip": True}, "training_seed": 0,
        "device": "cpu", "fp32": "ieee", "scores": [{"fid": 0.98 * fid, "kid": 0.01}, {"fid": 1.02 * fid, "kid": 0.01}],
    }  # fmt: skip


def write_data(images: np.ndarray) -> None:
    folder = Path("artifacts/data")
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", images)
    facts = {"n": len(images), "shape": list(images.shape[1:]), "range": [0, 255], "source": "made-up"}
    split = {"train": [0, 20], "holdout": [20, 24]}
    write_json(folder / "facts.json", facts | {"labels": None, "sha256": "0" * 64, "split": split})


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Silence)
    write_inputs()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("reported"))
        patch.setattr("unequal.pipeline.stage.Tracker", Silence)
        patch.setattr("stages.report.engine_seconds", lambda: SECONDS)
        write_inputs()
        result = run()
        assert result.exit_code == 0, result.output
        return Path.cwd(), dict(Silence.parent)


@pytest.fixture
def reported(made_once: tuple[Path, dict[str, float]], monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    monkeypatch.chdir(made_once[0])
    return made_once[1]


def write_trainings(losses: list[float]) -> None:
    experts = [f"experts_{kind}_group_{group}" for kind in ("pruned", "unpruned") for group in (0, 1)]
    lines = [
        {"step": i, "images_seen": 1000 * i, "loss": loss, "images_per_second": 100} for i, loss in enumerate(losses, 1)
    ]
    for name in ("base", "longer", "stratified", "slot_2", *experts):
        write_csv(Path(f"results/training/{name}.csv"), lines)


def write_inputs() -> None:
    """Write the outputs of the stages before the report, with one orphan."""
    random = np.random.default_rng(0)
    Path("params.yaml").write_text(yaml.safe_dump(PARAMS))
    write_data(random.integers(0, 256, (24, 1, 8, 8), dtype=np.uint8))
    base = np.geomspace(1, 0.0001, T)[:, None] * random.uniform(0.9, 1.1, (T, 6)).astype(np.float32)
    after = base * np.repeat([1.5, 0.8, 2.0], [5, 10, 25])[:, None]
    scatter = np.random.default_rng(1).uniform(0.98, 1.02, (T, 6)).astype(np.float32)
    experts = scatter * base * np.repeat([0.9, 1.02], [10, 30])[:, None]
    measured = {"base": base, "slot_2": after, "longer": 0.98 * base, "experts_unpruned": experts, "mixed": base}
    for name, losses in measured.items():
        write_profile(
            Path(f"artifacts/profiles/{name}.npz"), dict.fromkeys(("train", "holdout"), Errors(losses, losses))
        )
    write_npz(Path("artifacts/profiles/floor.npz"), train=base / 2)
    write_npz(Path("artifacts/statistics/mixed.npz"), wins=np.ones((20, 2, 3)), bins=np.repeat([0, 1], T // 2))
    write_json(Path("artifacts/slots.json"), {"timesteps": T, "loss": "total", "slots": SLOTS})
    write_json(Path("results/metrics/slots.json"), {"total": SLOTS, "excess": SLOTS})
    limits = [{"group": 0, "first": 0, "last": 9, "limit_ratio": 0.6}]
    limits += [{"group": 1, "first": 10, "last": 39, "limit_ratio": 1.0}]
    groups = {"timesteps": T, "schedule": "linear", "kind": "snr", "min_ratio": 0.5, "groups": limits}
    write_json(Path("artifacts/groups.json"), groups)
    sampler = {"density": "slots", "draw": "stratified", "timesteps": T, "slots": SLOTS}
    write_json(Path("artifacts/samplers/stratified.json"), sampler)
    Path("artifacts/samples").mkdir()
    for name, fid, flops in SCORES:
        steps = [1, 2] if name.startswith("experts_") else [3]
        write_json(Path(f"results/fid/{name}.json"), {"sampling_steps_per_expert": steps} | score(fid, flops))
        np.save(f"artifacts/samples/{name}.npy", random.integers(0, 256, (20, 1, 8, 8), dtype=np.uint8))
    write_trainings([1.0, 0.9, 0.85, 0.83])
    for seen in (500, 1000):
        grid = random.integers(0, 256, (1, 32, 32), dtype=np.uint8)
        write_bytes(Path(f"artifacts/progress/base/{seen:012d}.png"), png_of(grid))
    others = {"fid_half": 2.0, "precision": 0.5, "recall": 0.5}
    ends = {"real_against_real": {"fid": 1.0, "kid": 0.0}, "noise_against_real": {"fid": 900.0, "kid": 0.5}}
    ends = {name: end | others for name, end in ends.items()}
    write_json(Path("results/fid/reference.json"), ends | {"real_sets": "half against half"})
    for group, share in enumerate((0.59, 0.99)):
        searched = {"candidates": 8, "loss": 0.1, "fresh_loss": 0.12, "control_fresh_loss": 0.15} if group else {}
        write_json(Path(f"results/metrics/prune_expert_group_{group}.json"), {"share_of_base": share} | searched)
    write_json(Path("results/metrics/train_base.json"), {"precision": "bf16", "compiled": True})
    for name, seen in {"longer": 600, "experts_unpruned_group_0": 200, "experts_unpruned_group_1": 400}.items():
        write_json(Path(f"results/metrics/train_{name}.json"), {"images_seen": seen, "inherited_images": 1000})


def run() -> Result:
    return CliRunner().invoke(main, [])


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def findings() -> dict[str, Any]:
    document = json.loads(Path("results/findings.json").read_text())
    keys = {one["heading"]: [statement["key"] for statement in one["statements"]] for one in document.pop("sections")}
    return document | {"keys": keys}


def test_the_report_says_what_was_put_in(reported: dict[str, float]) -> None:
    found = findings()
    assert found["keys"] == {
        "Is the base ready?": ["base", "headroom", "longer"],
        # −25 %, +12.5 % and +50 %
        "What paid in this run?": ["experts_unpruned", "stratified", "experts_pruned"],
        "How unequal are timesteps?": ["losses", "own_slot", "other_slots"],
    }
    assert found["experts_pruned_fid_change_percent"] == pytest.approx(50)
    assert found["experts_pruned_sampling_flops_ratio"] == pytest.approx(0.89)
    assert found["longer_x0_loss_over_log_snr_change_percent"] == pytest.approx(-2, abs=1e-4)
    assert "stratified_loss_over_timesteps_change_percent" not in found
    assert found["own_slot_2_percent"] == pytest.approx(-20, abs=0.01)
    assert [row["variant"] for row in rows("results/fid.csv")] == PARAMS["scored_models"]
    ends = [reported[f"fid_percent_{end}/experts_unpruned"] for end in ("low", "change", "high")]
    assert ends == sorted(ends)
    assert ends[1] == pytest.approx(-25)
    assert reported["training_flops/longer"] > 0
    found = rows("results/interference.csv")
    assert [row["split"] for row in found] == ["train"] * 3 + ["holdout"] * 3
    assert [float(row["change_percent"]) for row in found] == pytest.approx([50, -20, 100] * 2, abs=0.01)


@pytest.mark.usefixtures("reported")
def test_the_page_holds_all_pictures_and_no_orphan() -> None:
    page = Path("results/report.html").read_text()
    assert uneven_tables(page) == []
    assert "Searches for what to prune" in page
    drawn = sorted(Path("results/pictures").glob("*.png"))
    assert len(drawn) == page.count("data:image/png") == 12
    assert "orphan" not in page
    said = ("made-up, 20 training and 4 held-out images of 8×8×1", "DDIM, 3 listed steps", "6 draws a timestep")
    said += ("Take experts unpruned (artifacts/models/experts_unpruned)", "timesteps, trained in bf16, compiled")
    said += ("this command took 2 h · this command cost 6 at 3 an hour",)
    assert [text for text in said if text not in page.replace("\N{NO-BREAK SPACE}", " ")] == []


def test_the_page_of_a_smoke_run_says_first_that_its_figures_mean_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.report.place_below", lambda: Path("tries/mine"))
    said = run()
    assert "open tries/mine/results/report.html" in said.output
    page = Path("results/report.html").read_text()
    first = page[page.index("<h1>") : page.index("<figure")]
    assert "<h1>A smoke run: its figures mean nothing</h1>" in first
    assert "the base saw 100 images, and each FID is of 64 samples" in first
    assert "cd tries/mine\nunequal sample base" in first
    assert "Take " not in page
    assert "Results of the methods" in findings()["keys"]


def test_a_second_run_gives_the_same_bytes(
    made_once: tuple[Path, dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.report.engine_seconds", lambda: SECONDS)
    run()
    for name in ("pictures", "report.html", "tables"):
        assert content_hash(Path("results") / name) == content_hash(made_once[0] / "results" / name)


def rewritten(path: str, **changes: Any) -> Callable[[], None]:

    def spoil() -> None:
        Path(path).write_text(json.dumps(json.loads(Path(path).read_text()) | changes))

    return spoil


BASE, PRUNED = "results/fid/base.json", "results/metrics/prune_expert_group_0.json"
PROFILE = "artifacts/profiles/slot_2.npz"

SPOILED: dict[str, Bad] = {
    "FID that is no number": Bad(
        rewritten(BASE, fid_mean=float("nan")), f"{BASE}: fid_mean: NaN; allowed: a finite number"
    ),
    "other seeds": Bad(
        rewritten("results/fid/longer.json", sampling_seeds=[1, 2]),
        "results/fid/longer.json: 2 scores at sampling seeds [1, 2]; the base has 2 at [0, 1]",
    ),
    "a curve of nothing": Bad(
        lambda: Path("results/training/base.csv").write_text("step\n"), "results/training/base.csv: no training curve"
    ),
    "a share of nothing": Bad(rewritten(PRUNED, share_of_base=0), f"{PRUNED}: share_of_base: 0; allowed: above 0"),
    "a grid that is no picture": Bad(
        lambda: Path("artifacts/progress/base/000000000500.png").write_bytes(b"?"),
        "artifacts/progress/base: damaged (cannot identify image file",
    ),
    "a profile with NaN": Bad(
        lambda: write_npz(Path(PROFILE), train=np.full((T, 2), np.nan), holdout=np.ones((T, 2))),
        f"{PROFILE}: the loss profile holds nan at t = 0",
    ),
}


@table(SPOILED)
def test_spoiled_figures_are_refused_and_the_report_of_before_stays(bad: Bad) -> None:
    bad.spoil()
    check_refused(stages.report, said=bad.said, outputs=["results/report.html", "results/findings.json"])
