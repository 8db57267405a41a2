"""Plans as programs: trained and scored experts, and a study's page on made-up ones."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params
from tdc_data import BASE_FID, BASE_IMAGES, BASE_MACS, found, settings

from stages import build_extractor
from studies.tdc.claims import CLAIMS
from studies.tdc.stages import evaluate_experts, report_experts, train_experts
from unequal.data.prepared import PreparedData
from unequal.files import write_json
from unequal.models.folder import ModelRecord, load_record, save_model
from unequal.pipeline.stage import Run
from unequal.settings.training import Training

pytestmark = pytest.mark.slow

RECIPE: dict[str, Any] = {
    "images": 16,
    "prediction": "epsilon",
    "sampler": {"kind": "slot"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1.0e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
PLAN: dict[str, Any] = {
    "groups": {"kind": "snr", "count": 2, "min_ratio": 0.5},
    "pruning": {"method": "magnitude"},
    "start": "base",
    "recipe": RECIPE,
}
PROXY: dict[str, Any] = {
    "method": "proxy",
    "decider": {"kind": "tpe"},
    "ranking": {"method": "magnitude"},
    "start": [{"method": "magnitude"}],
    "rounds": 1,
    "candidates": 2,
    "images": 4,
    "finetuning": None,
}
SCORING = {
    "samples_per_seed": 1000,
    "sampling_seeds": [0],
    "extractor": "a classifier",
    "features": 64,
    "reference": "training images",
    "sampling": {"steps": 20, "spacing": "uniform", "eta": 0.0, "clip": True},
    "singular_covariance": False,
    "device": "cpu",
    "fp32": "ieee",
}


def run(program: Any, *options: str) -> Result:
    return CliRunner().invoke(program.main, options)


@pytest.fixture
def trained_base(
    project: Path,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
    training_settings: Callable[..., Training],
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net, name="base"))
    write_params(
        seed=0,
        training=training_settings().model_dump(mode="json"),
        plans={
            "question/small": PLAN,
            "question/decided": PLAN | {"pruning": PROXY},
            "question/measured": PLAN | {"groups": PLAN["groups"] | {"kind": "excess_loss"}},
        },
        extractor={"kind": "classifier", "weights": None, "features": 4, "images": 64, "batch_size": 8, "lr": 1.0e-3},
        sampling={"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 16},
        evaluation={"samples": 12, "seeds": [0], "kid_subset": 6, "allow_singular": False},
    )


@pytest.mark.usefixtures("trained_base")
def test_a_plan_is_trained_and_scored() -> None:
    options = ("--plan", "question/small", "--seed", "3")
    for program, its in ((train_experts, options), (build_extractor, ()), (evaluate_experts, options)):
        result = run(program, *its)
        assert result.exit_code == 0, result.output
    facts = json.loads(Path("results/experts/question/small/seed_3.json").read_text())
    records = [load_record(Path(f"artifacts/models/question/small/seed_3/group_{i}")) for i in range(2)]
    assert facts["images"] == records[0].inherited_images + 16
    assert [one["macs"] for one in facts["groups"]] == [one.macs for one in records]
    scores = json.loads(Path("results/trials/question/small/seed_3.json").read_text())
    assert scores["images_seen"] == facts["images"]
    assert scores["training_flops"] == facts["training_flops"]
    assert sum(scores["sampling_steps_per_expert"]) == 3
    assert scores["fid_mean"] > 0


@pytest.mark.usefixtures("trained_base")
def test_memory_banks_are_logged_as_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[str, Any] = {}
    monkeypatch.setattr(Run, "table", lambda run, name, rows: tables.setdefault(name, rows))
    assert run(train_experts, "--plan", "question/decided", "--seed", "3").exit_code == 0
    # The last group may keep everything: nothing is decided there.
    assert list(tables) == ["memory_bank_group_0"]
    assert [(one["round"], one["candidate"]) for one in tables["memory_bank_group_0"]] == [(0, 0), (1, 0), (1, 1)]


@pytest.mark.usefixtures("trained_base")
def test_groups_by_the_measured_loss_need_the_profile() -> None:
    result = run(train_experts, "--plan", "question/measured", "--seed", "3")
    assert result.exit_code == 1
    assert result.output.startswith("train_experts: artifacts/profiles/base.npz: missing; ")
    assert not Path("artifacts/models/question").exists()


@pytest.fixture
def made_up(project: Path, prepared: PreparedData) -> Callable[..., None]:
    """Writes what the stages before a question's report would have made of plans with these FIDs."""

    def write(question: str, fids: dict[str, float]) -> None:
        shutil.copytree(prepared.path, "artifacts/data")
        params, made = settings(), found(question, fids)
        plans = {name: plan.model_dump(mode="json") for name, plan in params.plans.items()}
        assert params.experts
        write_params(experts=params.experts.model_dump(mode="json"), plans=plans)
        write_json(Path("results/fid/base.json"), {"fid_mean": BASE_FID})
        training = {"macs": BASE_MACS, "parameters": 100, "images_seen": BASE_IMAGES, "training_flops": 1920}
        write_json(Path("results/metrics/train_base.json"), training)
        for name, one in made.outcomes.items():
            for experts, trial in zip(one.experts, one.trials, strict=True):
                write_json(Path(f"results/experts/{name}/seed_{trial['seed']}.json"), experts)
                write_json(Path(f"results/trials/{name}/seed_{trial['seed']}.json"), SCORING | trial)

    return write


@pytest.mark.parametrize("question", CLAIMS)
def test_a_question_has_its_page(question: str, made_up: Callable[..., None]) -> None:
    made_up(question, {"tdc": 0.8, "unpruned": 0.7, "longer": 0.9})
    result = run(report_experts, "--question", question)
    assert result.exit_code == 0, result.output
    page = Path(f"results/{question}/report.html").read_text(encoding="utf-8")
    assert "TDC without pruning" in page
    assert "0.700 ± 0.010" in page
    assert "groups without a step" in page
    verdicts = json.loads(Path(f"results/{question}/verdicts.json").read_text())
    assert sum(verdicts["counts"].values()) == len(verdicts["claims"])
    assert len(list(Path(f"results/{question}/pictures").glob("*.png"))) >= 2
    with Path(f"results/{question}/plans.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["plan"] for row in rows if row["fid"] == "0.7"} == {"shared/unpruned"}


def test_a_study_without_a_page_is_named(made_up: Callable[..., None]) -> None:
    made_up("groups", {})
    result = run(report_experts, "--question", "colours")
    assert result.exit_code == 1
    assert result.output == (
        "report_experts: experts.questions: 'colours' has no report; allowed: overall, schedules, groups, ratios, "
        "methods, alone, budgets\n"
    )


def test_a_plan_that_was_not_carried_out_is_named(made_up: Callable[..., None]) -> None:
    made_up("ratios", {})
    Path("results/trials/ratios/k40/seed_1.json").unlink()
    result = run(report_experts, "--question", "ratios")
    assert result.exit_code == 1
    assert result.output.startswith("report_experts: results/trials/ratios/k40/seed_1.json: missing; ")
    assert not Path("results/ratios").exists()
