"""The stage on a small made-up project, with all methods and with the base alone."""

import csv
import json
import shutil
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
from unequal.pipeline.logger import Execution
from unequal.report.page import anchor
from unequal.runtime.files import content_hash, write_bytes, write_csv, write_json, write_npz

pytestmark = pytest.mark.slow

T = 40
SLOTS = [[0, 4], [5, 14], [15, 39]]
#: FID and sampling FLOPs of every model, and of one that is none.
SCORES = (
    ("base", 10, 100),
    ("longer", 8, 100),
    ("stratified", 9, 100),
    ("slot_2", 20, 100),
    ("experts_unpruned", 6, 100),
    ("experts_pruned", 9, 89),
    ("orphan", 1, 1),
)
SPEC: dict[str, Any] = {
    "prediction": "epsilon",
    "schedule": {"name": "linear", "timesteps": T},
    "condition": {"kind": "none"},
    "variance": "fixed",
    "space": {"channels": 1, "size": 8},
}
PARAMS: dict[str, Any] = {
    "profiled_models": ["base", "longer", "slot_2", "experts_unpruned", "mixed"],
    "scored_models": ["base", "longer", "stratified", "slot_2", "experts_unpruned", "experts_pruned"],
    "finetune_recipes": ["stratified"],
    "groups": {"ids": [0, 1]},
    "runtime": RUNTIME | {"price_an_hour": 3.0},
}


#: Run → name and step → value.
Logged = dict[str, dict[str, float]]


class Recorder:
    """Takes the tracker's place; keeps what is logged: run → name and step → value."""

    logged: ClassVar[Logged] = {"parent": {}}

    def __init__(self, _: Any, execution: Execution, active: bool) -> None:
        self.name = execution.name
        self.logged.setdefault(self.name, {})

    def log(self, metrics: dict[str, float], step: int, parent: bool = False) -> None:
        self.logged["parent" if parent else self.name] |= {
            f"{name} {step}" if step else name: v for name, v in metrics.items()
        }

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def score(fid: float, flops: int) -> dict[str, Any]:
    return {
        "fid_mean": fid, "fid_sd": 0.1, "kid_mean": 0.01, "kid_sd": 0.001, "fid_half_mean": fid + 1,
        "precision_mean": 0.9, "precision_sd": 0.01, "recall_mean": 0.8, "recall_sd": 0.01,
        "training_flops": 1000,
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
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Recorder)
    write_inputs()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Logged]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("reported"))
        patch.setattr("unequal.pipeline.stage.Tracker", Recorder)
        write_inputs()
        result = run()
        assert result.exit_code == 0, result.output
        return Path.cwd(), dict(Recorder.logged)


@pytest.fixture
def reported(made_once: tuple[Path, Logged], monkeypatch: pytest.MonkeyPatch) -> Logged:
    monkeypatch.chdir(made_once[0])
    return made_once[1]


def write_trainings(losses: list[float]) -> None:
    experts = [f"experts_{kind}_group_{group}" for kind in ("pruned", "unpruned") for group in (0, 1)]
    lines = [
        {"step": i, "images_seen": 1000 * i, "loss": loss, "compute_seconds": 10.0} for i, loss in enumerate(losses, 1)
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
        write_json(
            Path(f"results/fid/{name}.json"),
            {"sampling_steps_per_expert": steps, "images_seen": 4000 if name == "base" else 12000} | score(fid, flops),
        )
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
    seen = {"longer": 600, "experts_unpruned_group_0": 200, "experts_unpruned_group_1": 400, "slot_2": 50}
    for name, own in ({"mixed": 1000} | seen).items():
        inherited = 1000 if name in seen else 0
        write_json(Path(f"results/metrics/train_{name}.json"), {"images_seen": own, "inherited_images": inherited})
    own = {"images_seen": 1000, "inherited_images": 0, "precision": "bf16", "compiled": True}
    write_json(Path("results/metrics/train_base.json"), own | {"spec": SPEC})


def run() -> Result:
    return CliRunner().invoke(main, [])


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def test_the_report_says_what_was_put_in(reported: Logged) -> None:
    found = {row["model"]: row for row in rows("results/fid.csv")}
    assert list(found) == PARAMS["scored_models"]
    # The base's four lines took 10 s each, as those of each group's expert did.
    assert [float(found[name]["training_seconds"]) for name in ("base", "longer", "experts_pruned")] == [40, 80, 120]
    assert float(found["experts_unpruned"]["fid"]) == 6
    changes = rows("results/tables/interference.csv")
    assert [row["split"] for row in changes] == ["train"] * 3 + ["holdout"] * 3
    assert [float(row["change_percent"]) for row in changes] == pytest.approx([50, -20, 100] * 2, abs=0.01)
    take = json.loads(Path("results/take.json").read_text())
    assert (take["model"], take["fid"]) == ("experts_unpruned", 6)
    figures = reported["parent"]
    assert figures == reported["experts_unpruned"]
    assert figures["fid"] == 6
    assert figures["compute_minutes"] == 2
    assert set(figures) == {"fid", "loss", "training_flops", "compute_minutes"}
    assert reported["longer"]["training_loss 4000"] == 0.83
    assert "slot_2" not in reported


@pytest.mark.usefixtures("reported")
def test_the_page_holds_all_pictures_and_no_orphan() -> None:
    page = Path("results/report.html").read_text()
    assert uneven_tables(page) == []
    for heading in (
        "Models",
        "Scores",
        "Costs",
        "Losses",
        "Slots",
        "Groups of timesteps",
        "Searches for what to prune",
    ):
        assert f"{heading}</h3>" in page
        assert (Path("results/tables") / f"{anchor(heading)}.md").exists()
    drawn = sorted(Path("results/pictures").glob("*.png"))
    assert len(drawn) == page.count("data:image/png") == 12
    assert "orphan" not in page
    text = page.replace("\N{NO-BREAK SPACE}", " ")
    said = ("<h1>made-up</h1>", "made-up, 20 training and 4 held-out images of 8×8×1", "DDIM, 3 listed steps")
    said += ("6 draws a timestep", "timesteps, trained in bf16, compiled", "0.267 at 3 an hour")
    said += ("Take experts unpruned (artifacts/models/experts_unpruned): FID (classifier) 6.00 ± 0.10 (−25.0 % (",)
    assert [words for words in said if words not in text] == []


def test_the_base_alone_makes_a_report(project: None) -> None:
    """A run of one model has no other files, and compares nothing."""
    params = PARAMS | {"profiled_models": ["base"], "scored_models": ["base"], "runtime": RUNTIME}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    for gone in ("artifacts/slots.json", "artifacts/groups.json", "artifacts/statistics/mixed.npz"):
        Path(gone).unlink()
    shutil.rmtree("artifacts/samplers")
    for file in [*Path("results/fid").glob("*.json"), *Path("results/metrics").glob("*.json")]:
        if file.stem not in {"base", "reference", "train_base"}:
            file.unlink()
    result = run()
    assert result.exit_code == 0, result.output
    page = Path("results/report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "Take base (artifacts/models/base): FID (classifier) 10.0 ± 0.1; 1.00 k training FLOPs, 40 s of processor"
        in page
    )
    drawn = {file.stem for file in Path("results/pictures").glob("*.png")}
    assert drawn == {"overview_samples", "training_curves", "progress", "loss_profile"}
    assert rows("results/tables/interference.csv") == []


def test_the_page_of_a_smoke_run_says_first_that_its_figures_mean_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.report.place_below", lambda: Path("tries/mine"))
    said = run()
    assert "open tries/mine/results/report.html" in said.output
    page = Path("results/report.html").read_text()
    first = page[page.index("<h1>") : page.index("<figure")]
    assert "<h1>A smoke run: its figures mean nothing</h1>" in first
    assert "cd tries/mine\nunequal sample base" in first
    assert "Take " not in page


def test_a_second_run_gives_the_same_bytes(made_once: tuple[Path, Logged], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Recorder)
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
        lambda: write_npz(
            Path(PROFILE), **dict.fromkeys(("train", "train_x0", "holdout", "holdout_x0"), np.full((T, 2), np.nan))
        ),
        f"{PROFILE}: the loss profile holds nan at t = 0",
    ),
}


@table(SPOILED)
def test_spoiled_figures_are_refused_and_the_report_of_before_stays(bad: Bad) -> None:
    bad.spoil()
    check_refused(stages.report, said=bad.said, outputs=["results/report.html", "results/take.json"])
