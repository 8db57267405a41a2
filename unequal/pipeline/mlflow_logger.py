"""Runs in MLflow, imported where used: a parent a configuration, a child a stage, and a run a scored model."""

import json
import logging
import os
import sqlite3
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from unequal.data.grids import enlarged
from unequal.errors import UserError
from unequal.models.folder import RECORD, load_record
from unequal.pipeline.commit import commit_tags, committed_settings
from unequal.pipeline.logger import MODEL, Execution, Logger, Point
from unequal.pipeline.naming import Earlier, as_text, leaves, run_label
from unequal.runtime.files import settings_hash, write_json
from unequal.runtime.place import home, work_root
from unequal.settings.training import Tracking

if TYPE_CHECKING:
    from unequal.settings.evaluation import Sampling

#: Longest wait for another process that writes into the same database.
LOCK_SECONDS = 120
#: MLflow's limits: params and metrics a request, characters of a parameter.
PARAMS_A_BATCH, POINTS_A_BATCH, PARAM_CHARACTERS = 100, 1000, 6000
#: Name of the view of the scored models, with what people compare, by which MLflow's pages find it.
MODELS_VIEW = "models"
VIEW = {
    "searchFilter": f"tags.stage = '{MODEL}'",
    "selectedColumns": [f"metrics.`{name}`" for name in ("fid", "loss", "training_flops", "compute_minutes")],
}
#: Has MLflow's pages open the experiment as model training, not as work with language models.
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    f"mlflow.sharedViewState.{MODELS_VIEW}": json.dumps(VIEW),
}
#: Folder of the files of runs in a database, and the database itself, in the project.
FILES, DATABASE = "mlartifacts", "mlflow.db"
#: Tags: the stage of a run, and the configuration, by which executions of the same settings find their parent.
STAGE_TAG, CONFIGURATION_TAG = "stage", "unequal.configuration"
#: Program that MLflow runs to load a registered model.
REGISTERED = Path(__file__).with_name("registered_model.py")
#: Pixels a side to which smaller pictures are enlarged.
SHOWN_PIXELS = 256
#: MLflow's tag of a description, and parent runs that a new one is compared with, the latest.
NOTE_TAG, EARLIER_RUNS = "mlflow.note.content", 100
#: Variables of MLflow that are set before its import, unless the user has: short waits, no chatter.
QUIET = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class MlflowLogger(Logger):
    """A run in MLflow."""

    def __init__(self, tracking: Tracking, execution: Execution) -> None:
        """Open the store; make an SQLite database before its first use."""
        super().__init__(tracking, execution)
        quieten(tracking.timeout_s)
        from mlflow import MlflowClient

        root, uri = home(), self.address(tracking)
        self.parent = self.child = ""
        self.database = database_file(uri, root)
        lock = self.database.with_name(f"{self.database.name}.lock") if self.database else work_root() / "tracking.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(lock, timeout=LOCK_SECONDS)
        if self.database:
            with self.lock:
                make_database(self.database)
                if self.database.is_relative_to(root):
                    bring_files_along(self.database, root / FILES)
        self.client = MlflowClient(f"sqlite:///{self.database}" if self.database else uri)
        self.files = (root / FILES).as_uri() if self.database else None

    @classmethod
    def address(cls, tracking: Tracking) -> str:
        """Return the setting, else MLflow's own environment variable, else a database next to the project."""
        return tracking.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home() / DATABASE}"

    @staticmethod
    def is_retryable(error: Exception) -> bool:
        """Say whether nobody answers, or the server is at fault, not the request."""
        from mlflow.exceptions import MlflowException
        from requests import RequestException

        if "database is locked" in str(error):
            return True
        if isinstance(error, MlflowException):
            status = int(error.get_http_status_code())
        elif isinstance(error, RequestException):
            status = 503 if error.response is None else error.response.status_code
        else:
            return Logger.is_retryable(error)
        return status >= 500 or status in (408, 429)

    def alone(self) -> AbstractContextManager[object]:
        """Have one process at a time write into an SQLite database."""
        return self.lock if self.database else nullcontext()

    def start(self) -> None:
        """Find or create the experiment and the run of this configuration, and create that of this execution.

        A tag names the parent, whatever the environment says. A model's run has none: MLflow shows it with the parents.
        """
        configuration = settings_hash(self.execution.configuration)
        with self.lock:
            self.experiment = self._experiment()
            self.parent = self.parent or self._find_parent(configuration)
        if not self.child:
            stage = self.execution.stage
            tags = {STAGE_TAG: stage} | {f"option.{name}": str(value) for name, value in self.execution.options.items()}
            if stage == MODEL:
                tags |= {"unequal.configuration_of_model": configuration}
                same = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
                for earlier in self.client.search_runs([self.experiment], same):
                    self.client.delete_run(earlier.info.run_id)
            else:
                tags |= {"mlflow.parentRunId": self.parent} | commit_tags()
            self.child = self.client.create_run(self.experiment, run_name=self.execution.name, tags=tags).info.run_id
        self._log_params(self.child, self.execution.settings)

    def params(self, values: Mapping[str, Any]) -> None:
        self._log_params(self.child, {"conditions": values})

    def metrics(self, points: Sequence[Point], parent: bool = False) -> None:
        from mlflow.entities import Metric

        values = [Metric(one.name, one.value, one.timestamp, one.step) for one in points]
        for start in range(0, len(values), POINTS_A_BATCH):
            self.client.log_batch(self.parent if parent else self.child, values[start : start + POINTS_A_BATCH])

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Log an image as one of a series over steps; a small one is enlarged, pixel by pixel."""
        pixels = enlarged(image, SHOWN_PIXELS).transpose(1, 2, 0)
        self.client.log_image(self.child, pixels, key=name, step=step, synchronous=True)

    def artifacts(self, files: Mapping[str, Path | str], parent: bool = False) -> None:
        run = self.parent if parent else self.child
        for name, file in files.items():
            if isinstance(file, str):
                self.client.log_text(run, file, name)
            else:
                folder = name.rpartition("/")[0]
                self.client.log_artifact(run, str(file), folder or None)

    def register(self, name: str, model: Path, timesteps: Sequence[int], sampling: "Sampling") -> None:
        """Save a model with the run, and register it as a new version of its name, with noise in and images out."""
        import mlflow.pyfunc
        from mlflow.exceptions import MlflowException
        from mlflow.models import ModelSignature
        from mlflow.types import Schema, TensorSpec

        first, name = model if (model / RECORD).exists() else model / "group_0", f"{self.tracking.experiment}-{name}"
        shape = (-1, *load_record(first).spec.space.shape)
        noise, images = (Schema([TensorSpec(np.dtype(kind), shape)]) for kind in (np.float32, np.uint8))
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no example was given besides the signature
            facts = Path(folder, "sampling.json")
            write_json(facts, {"timesteps": tuple(timesteps), "sampling": sampling.model_dump(mode="json")})
            mlflow.pyfunc.save_model(
                f"{folder}/model",
                python_model=str(REGISTERED),
                artifacts={"model": str(model), "sampling": str(facts)},
                signature=ModelSignature(noise, images),
                pip_requirements=["unequal"],
            )
            self.client.log_artifacts(self.child, f"{folder}/model", "model")
        try:
            self.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        self.client.create_model_version(name, f"{self.client.get_run(self.child).info.artifact_uri}/model", self.child)

    def finish(self, status: str) -> None:
        """End the run; the parent takes the state of the execution that ended last."""
        for run in (self.child, self.parent):
            self.client.set_terminated(run, status)

    def _experiment(self) -> str:
        """Find or create the experiment; with a database its files lie next to the project."""
        if experiment := self.client.get_experiment_by_name(self.tracking.experiment):
            return str(experiment.experiment_id)
        name, files = self.tracking.experiment, self.files
        return str(self.client.create_experiment(name, artifact_location=files, tags=EXPERIMENT_TAGS))

    def _find_parent(self, configuration: str) -> str:
        """Find or create the run of the configuration, named by what differs from the commit's settings."""
        tagged = f"tags.`{CONFIGURATION_TAG}` = '{configuration}'"
        if runs := self.client.search_runs([self.experiment], tagged, max_results=1):
            parent = str(runs[0].info.run_id)
            self.client.update_run(parent, status="RUNNING")
            return parent
        runs = self.client.search_runs([self.experiment], f"tags.`{CONFIGURATION_TAG}` != ''", max_results=EARLIER_RUNS)
        earlier = [Earlier(run.info.run_name or run.info.run_id, run.data.params) for run in runs]
        logged = {key: as_text(value)[:PARAM_CHARACTERS] for key, value in leaves(self.execution.configuration)}
        label = run_label(self.execution.written, committed_settings(), logged, earlier)
        name = os.environ.get("DVC_EXP_NAME") or f"{label.name}"
        tags = {CONFIGURATION_TAG: configuration, NOTE_TAG: label.description} | commit_tags()
        parent = str(self.client.create_run(self.experiment, run_name=name, tags=tags).info.run_id)
        self._log_params(parent, self.execution.configuration)
        return parent

    def _log_params(self, run: str, settings: Mapping[str, Any]) -> None:
        """Log settings under their dotted keys."""
        from mlflow.entities import Param

        params = [Param(key, as_text(value)[:PARAM_CHARACTERS]) for key, value in leaves(settings)]
        for start in range(0, len(params), PARAMS_A_BATCH):
            self.client.log_batch(run, params=params[start : start + PARAMS_A_BATCH])


def quieten(timeout_s: float) -> None:
    """Set short waits and no chatter for MLflow, before it is imported."""
    for name, value in ({"MLFLOW_HTTP_REQUEST_TIMEOUT": f"{max(1, round(timeout_s))}"} | QUIET).items():
        os.environ.setdefault(name, value)
    for logger in ("alembic", "urllib3"):
        logging.getLogger(logger).setLevel(logging.ERROR)


def experiment_number(uri: str, name: str) -> str | None:
    """The number of an experiment in MLflow's addresses, or None where nothing was logged to it."""
    from mlflow import MlflowClient

    experiment = MlflowClient(uri).get_experiment_by_name(name)
    return None if experiment is None else str(experiment.experiment_id)


def database_file(uri: str, root: Path) -> Path | None:
    """Return the file of an SQLite address (relative to the project's root), or None for servers."""
    prefix, _, path = uri.partition(":///")
    return root / path.partition("?")[0] if prefix == "sqlite" else None


def make_database(path: Path) -> None:
    """Make a database, which appears when it is whole: processes that make one together fail.

    Raises:
        UserError: another file stands there, which MLflow would try for minutes to open.
    """
    from mlflow.db import upgrade

    if path.exists():
        with path.open("rb") as file:
            if (head := file.read(16)) and head != b"SQLite format 3\0":
                raise UserError("no SQLite database")
        return
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    upgrade.main([f"sqlite:///{unfinished}"], standalone_mode=False)
    unfinished.replace(path)


def bring_files_along(database: Path, files: Path) -> None:
    """Have the project's own experiments and runs name its folder of files, after the project was moved or copied.

    MLflow stores absolute addresses, and would write into the former folder, or make it anew.
    """
    address = files.as_uri()
    with closing(sqlite3.connect(database, timeout=LOCK_SECONDS)) as connection, connection:
        rows = connection.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
        former = [old for (old,) in rows if str(old).startswith("file://") and str(old).endswith(f"/{FILES}")]
        for old in (old for old in former if old != address):
            change = "artifact_location = ? WHERE artifact_location = ?"
            connection.execute(f"UPDATE experiments SET {change}", (address, old))
            if files.is_dir():
                change = "artifact_uri = ? || substr(artifact_uri, ?) WHERE substr(artifact_uri, 1, ?) = ?"
                connection.execute(f"UPDATE runs SET {change}", (address, len(old) + 1, len(old) + 1, f"{old}/"))
