import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import numpy as np
import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from one_line import refusal

from unequal.models.folder import save_model
from unequal.pipeline import tracker as tracking
from unequal.pipeline.logger import Execution
from unequal.pipeline.mlflow_logger import CONFIGURATION_TAG, MlflowLogger
from unequal.pipeline.tracker import Tracker
from unequal.randomness import Stream
from unequal.runtime.files import write_json
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Sampling
from unequal.settings.training import Tracking

ROOT = Path(__file__).parents[2]
TRACKING: dict[str, Any] = {"uri": None, "experiment": "tests", "artifact_limit_mb": 0.001, "timeout_s": 60.0}
RUNTIME = {"device": "cpu", "compile": False, "channels_last": False, "progress": False}
SETTINGS = {"seed": 1, "training": {"betas": [0.9, 0.999], "precision": "fp32"}}

#: A stage that logs curves, figures and a file.
STAGE = """
from unequal.settings.strict import StageSettings
from unequal.pipeline.stage import Run, stage

class Settings(StageSettings):
    seed: int

@stage(Settings)
def main(run: Run, settings: Settings, name: str) -> None:
    run.output(f"artifacts/{name}.txt").write_text(name)
    for step in range(20):
        run.log({"loss": 1 / (step + 1)}, step)
    run.metrics(f"results/{name}.json", {"score": 2.5}, headline={f"score_{name}": 2.5})
"""


@pytest.fixture
def project(tmp_path, monkeypatch, empty_database):
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "DVC_EXP_NAME"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return tmp_path


OPTIONS = {"recipe": "base", "after": "results/metrics/data.json"}


def tracker(stage: str = "train", seed: int = 1, **tracking: Any) -> Tracker:
    document = SETTINGS | {"seed": seed, "runtime": RUNTIME | {"tracking": TRACKING | tracking}}
    return Tracker(Tracking(**TRACKING | tracking), Execution(stage, OPTIONS, {"seed": seed}, document, document))


def runs(project: Path) -> tuple[list[Run], list[Run]]:
    client = MlflowClient(f"sqlite:///{project / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("tests")
    found = client.search_runs([experiment.experiment_id], max_results=1000)
    parents = [run for run in found if CONFIGURATION_TAG in run.data.tags]
    return parents, [run for run in found if run not in parents]


def artifacts(project: Path, run: Run) -> dict[str, str]:
    folder = project / "mlartifacts" / run.info.run_id / "artifacts"
    return {
        file.relative_to(folder).as_posix(): file.read_text(errors="replace")
        for file in folder.rglob("*")
        if file.is_file()
    }


def write_stage(project: Path, **tracking: Any) -> None:
    (project / "toy.py").write_text(STAGE)
    params = SETTINGS | {"runtime": RUNTIME | {"tracking": TRACKING | tracking}}
    (project / "params.yaml").write_text(yaml.safe_dump(params))


def start_stage(project: Path, name: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = ["python", "-m", "toy", "--name", name]
    return subprocess.Popen(command, cwd=project, env=environment, text=True, stderr=subprocess.PIPE)


@pytest.fixture
def logged(project):
    """Log a run to its end, and give it back with the pipeline's run and a client."""

    def log_to_the_end(*calls: Callable[[Tracker], object], **changes: Any) -> tuple[Run, Run, MlflowClient]:
        log = tracker(**changes)
        for call in calls:
            call(log)
        log.finish("FINISHED")
        (parent,), (child,) = runs(project)
        return parent, child, MlflowClient(f"sqlite:///{project / 'mlflow.db'}")

    return log_to_the_end


def test_a_child_has_settings_curves_files_and_a_parent(project, logged):
    write_json(Path("results/small.json"), {})
    parent, child, client = logged(
        lambda log: [log.log({"loss": 1 / step}, step) for step in (10, 20)],
        lambda log: log.params({"device": "cpu"}),
        lambda log: log.results(
            {
                "fid": {"mean": 3.0, "n": 8},
                "final_loss": {"epsilon/uniform": 0.05},
                "name": "base",
                "ok": True,
                "values": [1],
                "no": None,
                "seed": 1,
            }
        ),
        lambda log: [log.picture("samples", np.full((1, 32, 32), step, np.uint8), step) for step in (10, 20)],
        lambda log: log.artifacts([Path("results")]),
        lambda log: log.log({"fid_base": 18.2}, 0, parent=True),
        lambda log: log.artifacts([Path("results")], parent=True),
    )
    assert parent.data.metrics == {"fid_base": 18.2}
    assert child.data.metrics == {"fid.mean": 3, "loss": 0.05}
    assert (child.info.run_name, child.data.tags["option.after"]) == ("train base", "results/metrics/data.json")
    tags = {"mlflow.parentRunId": parent.info.run_id, "stage": "train", "option.recipe": "base"}
    assert tags.items() <= child.data.tags.items()
    constants = {
        "conditions.fid.n": "8",
        "conditions.name": "base",
        "conditions.ok": "true",
        "conditions.device": "cpu",
    }
    assert child.data.params == {"seed": "1"} | constants
    assert parent.data.params == {"seed": "1", "training.betas": "[0.9, 0.999]", "training.precision": "fp32"}
    assert {run.info.status for run in (parent, child)} == {"FINISHED"}
    history = client.get_metric_history(child.info.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(10, 0.1), (20, 0.05)]
    small, found = {"results/small.json": "{}\n"}, artifacts(project, child)
    assert artifacts(project, parent) == small
    pictures = [
        re.fullmatch(r"images/samples\+step\+(\d+)\+.*\.(png|webp)", name) for name in sorted(found.keys() - small)
    ]
    assert [one.groups() for one in pictures if one] == [
        (step, kind) for step in ("10", "20") for kind in ("webp", "png")
    ]
    assert found.items() >= small.items()


def test_more_settings_than_a_request_takes_are_all_logged_and_long_ones_cut(project):
    settings = {f"recipe_{number}": {"images": number} for number in range(250)} | {"long": "x" * 7000}
    document = settings | {"runtime": RUNTIME | {"tracking": TRACKING}}
    Tracker(Tracking(**TRACKING), Execution("train", {}, settings, document, document)).finish("FINISHED")
    for run in (*runs(project)[0], *runs(project)[1]):
        assert len(run.data.params) == 251
        assert (run.data.params["recipe_249.images"], run.data.params["long"]) == ("249", "x" * 6000)


def test_stages_with_the_same_settings_share_a_parent(project, monkeypatch):
    tracker("first").finish("FINISHED")
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    tracker("second", timeout_s=59.0).finish("FAILED")
    monkeypatch.setenv("DVC_EXP_NAME", "huger-inks")
    tracker("third", seed=2).finish("FINISHED")
    parents, children = runs(project)
    by_name = {child.info.run_name: child for child in children}
    parent_of = {name: child.data.tags["mlflow.parentRunId"] for name, child in by_name.items()}
    assert parent_of["first base"] == parent_of["second base"] != parent_of["third base"]
    assert {parent.info.run_id for parent in parents} == set(parent_of.values())
    assert "huger-inks" in {parent.info.run_name for parent in parents}
    assert by_name["second base"].info.status == "FAILED"


def git(*arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], check=True)


def test_a_run_is_named_by_the_settings_that_differ_from_the_commits(project, logged):
    (project / "params.yaml").write_text("seed: 1\ntraining: {betas: [0.9, 0.99], lr: 1e-4}\n")
    for arguments in (["init", "-q"], ["add", "params.yaml"], ["commit", "-qm", "settings"]):
        git(*arguments)
    parent, _, _ = logged(seed=2)
    assert parent.info.run_name == "seed=2 training.betas=[0.9, 0.999] training.precision=fp32 and 1 more"
    assert "- `training.lr`: 0.0001 → –" in parent.data.tags["mlflow.note.content"].splitlines()
    assert len(parent.data.tags["mlflow.source.git.commit"]) == 40
    assert parent.data.tags["git.commit"] == parent.data.tags["mlflow.source.git.commit"]


@pytest.mark.parametrize("place", [shutil.move, shutil.copytree])
def test_a_moved_or_copied_project_brings_its_files_along(project, monkeypatch, place):
    (project / "first/.dvc").mkdir(parents=True)
    shutil.move(project / "mlflow.db", project / "first/mlflow.db")
    monkeypatch.chdir(project / "first")
    log_a_file("before")
    place(project / "first", project / "second")
    former = set((project / "first").rglob("*"))
    monkeypatch.chdir(project / "second")
    log_a_file("after")
    assert set((project / "first").rglob("*")) == former
    client = MlflowClient(f"sqlite:///{project / 'second/mlflow.db'}")
    for name in ("before", "after"):
        (found,) = client.search_runs(["1"], f"tags.stage = '{name}'")
        assert found.info.artifact_uri.startswith((project / "second/mlartifacts").as_uri())
        assert Path(client.download_artifacts(found.info.run_id, f"{name}.txt")).read_text() == name


def log_a_file(name: str) -> None:
    """Log a file as the artifact of a run of a stage."""
    Path(f"{name}.txt").write_text(name)
    tracker = Tracker(Tracking(**TRACKING), Execution(name, {}, {}, {}, {}))
    tracker.artifacts([Path(f"{name}.txt")])
    tracker.finish("FINISHED")


def test_a_large_file_is_a_reference_by_which_dvc_finds_it(project, logged):
    Path("models").mkdir()
    Path("models/weights.bin").write_bytes(b"x" * 1001)
    Path("models/config.json").write_bytes(b"y" * 1000)
    _, child, _ = logged(lambda log: log.artifacts([Path("models")]))
    md5 = hashlib.md5(b"x" * 1001).hexdigest()
    files = artifacts(project, child)
    assert set(files) == {"models/config.json", "models/weights.bin.reference.json"}
    reference = json.loads(files["models/weights.bin.reference.json"])
    assert reference == {"path": "models/weights.bin", "md5": md5, "size": 1001}


def test_facts_of_prepared_data_are_params_of_the_run(logged):
    facts = {"n": 4, "shape": [1, 8, 8], "source": "digits", "path": None, "sha256": "ab" * 32}
    write_json(Path("data/facts.json"), facts)
    _, child, _ = logged(*(lambda log, name=name: log.input(Path(name)) for name in ("data", "elsewhere", "data")))
    known = {"conditions.data.n": "4", "conditions.data.source": "digits", "conditions.data.sha256": "ab" * 32}
    assert known.items() <= child.data.params.items()


def test_a_commit_is_dirty_by_code_but_not_by_results(project):
    git("init", "--quiet")
    for file in ("code.py", "dvc.lock"):
        Path(file).write_text("1")
        git("add", file)
    git("commit", "--quiet", "-m", "first")
    Path("dvc.lock").write_text("2")
    tracker("clean").finish("FINISHED")
    Path("code.py").write_text("2")
    tracker("dirty").finish("FINISHED")
    tags = {child.data.tags["stage"]: child.data.tags for child in runs(project)[1]}
    assert {stage: tag["git.dirty"] for stage, tag in tags.items()} == {"clean": "false", "dirty": "true"}
    assert len(tags["clean"]["mlflow.source.git.commit"]) == 40


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_start")
def test_processes_on_a_fresh_database_lose_nothing(project):
    (project / "mlflow.db").unlink()
    write_stage(project)
    names = [f"stage_{i}" for i in range(3)]
    processes = [start_stage(project, name) for name in names]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 3
    assert sorted(file.stem for file in (project / "artifacts").iterdir()) == names
    (parent,), children = runs(project)
    assert parent.data.metrics == {f"score_{name}": 2.5 for name in names}
    assert sorted(child.data.tags["option.name"] for child in children) == names
    client = MlflowClient(f"sqlite:///{project / 'mlflow.db'}")
    for child in children:
        name = child.data.tags["option.name"]
        history = client.get_metric_history(child.info.run_id, "loss")
        assert [(point.step, point.value) for point in history] == [(step, 1 / (step + 1)) for step in range(20)]
        assert set(artifacts(project, child)) == {f"artifacts/{name}.txt", f"results/{name}.json"}
        assert child.info.status == "FINISHED"


class Away:
    """Makes every request of a client fail as one does to which nobody answers, while `gone` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone, self.failed = threading.Event(), threading.Event()
        alone = MlflowLogger.alone

        def alone_or_fail(logger: MlflowLogger) -> Any:
            if self.gone.is_set():
                self.failed.set()
                raise MlflowException("API request failed with exception ConnectionError")
            return alone(logger)

        monkeypatch.setattr(MlflowLogger, "alone", alone_or_fail)
        monkeypatch.setattr(tracking, "AGAIN_SECONDS", (0.05,))
        monkeypatch.setattr(tracking, "FLUSH_SECONDS", -1.0)


@pytest.mark.parametrize("back", ["while the stage runs", "as it ends"])
@pytest.mark.parametrize("from_the_start", [True, False])
def test_what_comes_while_the_server_is_away_is_sent_when_it_is_back(
    project, monkeypatch, capsys, back, from_the_start
):
    away = Away(monkeypatch)
    if from_the_start:
        away.gone.set()
    log = tracker()
    if not from_the_start:
        log.log({"loss": 1.0}, 1)
        away.gone.set()
    for step in range(2, 50):
        log.log({"loss": 1 / step}, step)
    assert away.failed.wait(60)
    log.params({"device": "cpu"})
    if back == "as it ends":
        threading.Timer(0.5, away.gone.clear).start()
    else:
        away.gone.clear()
    log.finish("FINISHED")
    (parent,), (child,) = runs(project)
    assert {run.info.status for run in (parent, child)} == {"FINISHED"}
    assert child.data.params["conditions.device"] == "cpu"
    history = MlflowClient(f"sqlite:///{project / 'mlflow.db'}").get_metric_history(child.info.run_id, "loss")
    assert sorted(point.step for point in history) == list(range(2 if from_the_start else 1, 50))
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tracking:")]
    assert said.endswith("ConnectionError; going on, what is logged is sent when it answers")


def test_a_server_that_stays_away_is_not_waited_for_at_the_end(project, monkeypatch, capsys):
    monkeypatch.setattr(tracking, "LAST_SECONDS", 0.01)
    away = Away(monkeypatch)
    away.gone.set()
    log = tracker(timeout_s=600.0)
    log.log({"loss": 1.0}, 1)
    assert away.failed.wait(60)
    began = time.monotonic()
    log.finish("FINISHED")
    assert time.monotonic() - began < 60
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("tracking:")][1:] == []


def test_a_request_that_is_refused_costs_no_other(logged, monkeypatch, capsys):
    def refused(*_: Any, **__: Any) -> None:
        raise MlflowException("no such table", error_code=INVALID_PARAMETER_VALUE)

    monkeypatch.setattr(MlflowLogger, "picture", refused)
    image = np.zeros((1, 8, 8), np.uint8)
    _, child, _ = logged(lambda log: log.picture("samples", image, 1), lambda log: log.params({"device": "cpu"}))
    assert (child.info.status, child.data.params["conditions.device"]) == ("FINISHED", "cpu")
    assert capsys.readouterr().err.endswith("MlflowException: no such table; the rest is logged\n")


def test_a_machine_without_git(project, monkeypatch, logged):
    monkeypatch.setenv("PATH", str(project))
    _, child, _ = logged()
    assert child.info.status == "FINISHED"
    assert not {"git.dirty", "mlflow.source.git.commit"} & set(child.data.tags)


def test_a_registered_model_has_a_signature_and_makes_the_models_samples(project, logged, tiny_net, make_record):
    net = tiny_net()
    save_model(Path("model"), net, make_record(net))
    sampling = Sampling(steps=3, spacing="uniform", eta=0.0, clip=True, batch_size=2)
    _, _, client = logged(*[lambda log: log.register("base", Path("model"), [49, 20, 0], sampling)] * 2)
    assert len(client.search_model_versions("name='tests-base'")) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{project / 'mlflow.db'}")
        loaded = mlflow.pyfunc.load_model("models:/tests-base/1")
    ensemble = Ensemble.load("model")
    noise = ensemble.noise_of(range(3), 0, Stream.SAMPLE_START).numpy()
    expected = ensemble.sample(3, [49, 20, 0], batch_size=2).numpy()
    assert np.array_equal(loaded.predict(noise), expected)
    assert loaded.metadata.signature.inputs.inputs[0].shape == (-1, 1, 8, 8)
    with pytest.raises(MlflowException, match="shape"):
        loaded.predict(noise[:, :, :4])


def test_a_scored_model_is_a_run_next_to_the_pipelines_and_there_once(project):
    tracker().finish("FINISHED")
    document = SETTINGS | {"runtime": RUNTIME | {"tracking": TRACKING}}
    for fid in (3.0, 2.0):
        log = Tracker(Tracking(**TRACKING), Execution("model", {"name": "base"}, {}, document, document))
        log.log({"fid": fid}, 0)
        log.finish("FINISHED")
    (model,) = [run for run in runs(project)[1] if run.data.tags["stage"] == "model"]
    assert (model.info.run_name, model.data.metrics) == ("base", {"fid": 2.0})
    assert "mlflow.parentRunId" not in model.data.tags


def test_runs_are_logged_into_files_by_name(project):
    log = tracker(logger="files")
    log.log({"loss": 0.5}, 10)
    log.log({"fid": 2.0}, 0, parent=True)
    log.picture("samples", np.zeros((1, 8, 8), np.uint8), 10)
    log.finish("FAILED")
    (parent,) = (project / "logs/runs").iterdir()
    (child,) = (place for place in parent.iterdir() if place.is_dir())
    lines = [json.loads(line) for line in (child / "metrics.jsonl").read_text().splitlines()]
    assert [(one["name"], one["value"], one["step"]) for one in lines] == [("loss", 0.5, 10)]
    assert '"fid"' in (parent / "metrics.jsonl").read_text()
    assert [json.loads(line) for line in (child / "params.jsonl").read_text().splitlines()] == [
        {"seed": 1},
        {"status": "FAILED"},
    ]
    assert (child / "samples-000000010.png").exists()
    assert MlflowClient(f"sqlite:///{project / 'mlflow.db'}").get_experiment_by_name("tests") is None


#: A logger for a service of one's own, in a file of the project.
OWN_LOGGER = """
from unequal.pipeline.logger import Logger

SENT = []

class OwnLogger(Logger):
    def start(self):
        SENT.append(("start", self.execution.name, dict(self.execution.settings)))

    def metrics(self, points, parent=False):
        SENT.extend((one.name, one.value, one.step, parent) for one in points)

    def finish(self, status):
        SENT.append(("finish", status))
"""


def test_a_logger_is_added_in_a_file_of_ones_own(project, monkeypatch):
    (project / "own_logger.py").write_text(OWN_LOGGER)
    monkeypatch.syspath_prepend(str(project))
    log = tracker(logger="own_logger:OwnLogger")
    log.log({"loss": 0.5}, 10)
    log.artifacts([Path("own_logger.py")])
    log.finish("FINISHED")
    sent = __import__("own_logger").SENT
    assert sent == [("start", "train base", {"seed": 1}), ("loss", 0.5, 10, False), ("finish", "FINISHED")]


@pytest.mark.parametrize("name", ["wandb", "nowhere:Logger", "json:dumps", "no such"])
def test_a_logger_that_there_is_not_is_refused(project, name):
    line = refusal(tracker, logger=name)
    assert f"runtime.tracking.logger: '{name}'" in line
    assert "mlflow, files" in line
