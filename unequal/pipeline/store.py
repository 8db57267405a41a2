"""Write runs into MLflow; the only module that knows MLflow, which it imports where it is used."""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from filelock import FileLock

from unequal.data.grids import enlarged
from unequal.errors import UserError
from unequal.pipeline.commit import commit_tags, committed_settings
from unequal.pipeline.naming import Earlier, RunLabel, as_text, data_name, leaves, run_label
from unequal.pipeline.workdirs import study, work_root
from unequal.runtime.files import read_json, settings_hash

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun

#: Longest wait for another process that writes into the same database.
LOCK_SECONDS = 120
#: Waits between attempts where a program that knows nothing of our lock holds the database.
RETRY_SECONDS = (0.1, 0.3, 1, 3)
#: MLflow's limits: params and metrics a request, characters of a parameter and of a data set's digest.
PARAMS_A_BATCH, POINTS_A_BATCH, PARAM_CHARACTERS, DIGEST_CHARACTERS = 100, 1000, 6000, 36
#: Has MLflow's pages open the experiment as model training, not as work with language models.
MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}
#: Folder of the files of runs in a database, in the project.
FILES = "mlartifacts"
#: Tag of a stage's run.
STAGE_TAG = "stage"
#: Tag of a parent run, by which the executions of the same settings find it.
CONFIGURATION_TAG = "unequal.variant"
#: Pixels a side to which smaller pictures are enlarged.
SHOWN_PIXELS = 256
#: MLflow's tag of a description, and parent runs that a new one is compared with, the latest.
NOTE_TAG, EARLIER_RUNS = "mlflow.note.content", 100


@dataclass(frozen=True)
class StageExecution:
    """Description of a child run: the stage, its options and settings, and the whole of params.yaml.

    `document` has hashes in the place of paths, `written` has the paths.
    """

    stage: str
    options: Mapping[str, str | int]
    settings: Mapping[str, Any]
    document: Mapping[str, Any]
    written: Mapping[str, Any]

    @property
    def configuration(self) -> dict[str, Any]:
        """Settings that shape results: executions that share them belong to one parent run."""
        return {section: content for section, content in self.document.items() if section != "runtime"}


class Point(NamedTuple):
    """A value of a curve, with the time in milliseconds at which it was logged."""

    name: str
    value: float
    timestamp: int
    step: int


class Reference(NamedTuple):
    """A file too large for MLflow; DVC stores it as .dvc/cache/files/md5/<2 digits>/<30 digits>."""

    path: str
    md5: str
    size: int


class Store:
    """A client of MLflow with the parent run and the child run, used by the tracker's thread alone.

    Every method may be called again after it failed.
    """

    def __init__(self, uri: str, root: Path, experiment: str, execution: StageExecution) -> None:
        """Open the store; make an SQLite database, or bring it up to date, before its first use."""
        from mlflow import MlflowClient

        self.root = root
        self.experiment = experiment
        self.execution = execution
        self.parent = self.child = ""
        self.database = database_file(uri, root)
        lock = self.database.with_name(self.database.name + ".lock") if self.database else work_root() / "tracking.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(lock, timeout=LOCK_SECONDS)
        if self.database:
            with self.lock:
                prepare_database(self.database)
                if self.database.is_relative_to(root):
                    bring_files_along(self.database, root / FILES)
        self.client = MlflowClient(f"sqlite:///{self.database}" if self.database else uri)

    def attempt(self, task: Callable[["Store"], None]) -> None:
        """Do a task; one process at a time writes into an SQLite database; wait for a writer that ignores our lock."""
        for delay in (*RETRY_SECONDS, None):
            try:
                with self.lock if self.database else nullcontext():
                    task(self)
                return
            except Exception as error:
                if delay is None or "database is locked" not in str(error):
                    raise
                time.sleep(delay)

    def find_parent(self) -> None:
        """Find or create the run of this configuration; the lock admits one process at a time."""
        configuration = settings_hash(self.execution.configuration)
        with self.lock:
            experiment = self._experiment_id()
            tagged = f"tags.`{CONFIGURATION_TAG}` = '{configuration}'"
            runs = self.client.search_runs([experiment], tagged, max_results=1)
            if runs:
                self.parent = runs[0].info.run_id
                self.client.update_run(self.parent, status="RUNNING")
                return
            label = self.label(experiment)
            name = os.environ.get("DVC_EXP_NAME") or f"{study() or 'pipeline'} {label.name}"
            tags = {CONFIGURATION_TAG: configuration, NOTE_TAG: label.description} | commit_tags()
            run = self.client.create_run(experiment, run_name=name, tags=tags)
            self.parent = run.info.run_id
            self._log_params(self.parent, self.execution.configuration)

    def label(self, experiment: str) -> RunLabel:
        """Name and description of the run of this configuration."""
        runs = self.client.search_runs([experiment], f"tags.`{CONFIGURATION_TAG}` != ''", max_results=EARLIER_RUNS)
        earlier = [Earlier(run.info.run_name or run.info.run_id, run.data.params) for run in runs]
        logged = {key: as_text(value)[:PARAM_CHARACTERS] for key, value in leaves(self.execution.configuration)}
        return run_label(self.execution.written, committed_settings(), logged, earlier)

    def create_child(self) -> None:
        """Create the run of this execution; a tag names its parent, whatever the environment says."""
        stage, options = self.execution.stage, self.execution.options
        tags = {"mlflow.parentRunId": self.parent, STAGE_TAG: stage}
        tags |= {f"option.{option}": str(value) for option, value in options.items()}
        # Files that a stage waits for are options too.
        name = " ".join([stage, *(str(value) for value in options.values() if "/" not in str(value))])
        run: MlflowRun = self.client.create_run(self._experiment_id(), run_name=name, tags=tags)
        self.child = run.info.run_id

    def describe_child(self) -> None:
        """Log the execution's settings and the state of the code."""
        self._log_params(self.child, self.execution.settings)
        self.log_tags(commit_tags())

    def log_tags(self, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self.client.set_tag(self.child, name, value)

    def log_points(self, points: Sequence[Point], parent: bool = False) -> None:
        from mlflow.entities import Metric

        for batch in batches(points, POINTS_A_BATCH):
            self.client.log_batch(self.parent if parent else self.child, metrics=[Metric(*point) for point in batch])

    def log_dataset(self, path: Path) -> None:
        """Log the data set that lies prepared in a folder, of the child run and of its parent."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        facts = read_json(path / "facts.json")
        dataset = Dataset(
            name=data_name(self.execution.written) or facts["source"],
            digest=facts["sha256"][:DIGEST_CHARACTERS],
            source_type="local",
            source=json.dumps({"uri": facts["source"]}),
            profile=json.dumps(facts),
        )
        context = InputTag("mlflow.data.context", "pipeline")
        for run in (self.child, self.parent):
            self.client.log_inputs(run, datasets=[DatasetInput(dataset, [context])])

    def log_picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Log an image, uint8 [C, H, W], as one of a series over steps; a small one is enlarged, pixel by pixel."""
        pixels = enlarged(image, SHOWN_PIXELS).transpose(1, 2, 0)
        self.client.log_image(self.child, pixels, key=name, step=step, synchronous=True)

    def log_conditions(self, content: Mapping[str, Any]) -> None:
        """Log what figures depend on as params of the child run."""
        self._log_params(self.child, {"conditions": content})

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log a table of the child run like MLflow's `log_table`, which would append where this is repeated."""
        from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

        columns = list(rows[0])
        file = f"{name}.json"
        self.client.log_dict(
            self.child, {"columns": columns, "data": [[row[c] for c in columns] for row in rows]}, file
        )
        self.client.set_tag(self.child, MLFLOW_LOGGED_ARTIFACTS, json.dumps([{"path": file, "type": "table"}]))

    def log_files(self, files: Iterable[tuple[Path, str]], references: Iterable[Reference], parent: bool) -> None:
        """Log files into their folders, and references for large files."""
        run = self.parent if parent else self.child
        for file, folder in files:
            self.client.log_artifact(run, str(file), None if folder == "." else folder)
        for reference in references:
            self.client.log_dict(run, reference._asdict(), f"{reference.path}.reference.json")
            self.client.set_tag(run, f"artifact.{reference.path}", f"md5:{reference.md5}")

    def finish(self, status: str, seconds: float) -> None:
        """End the child run; the parent takes the state of the execution that ended last."""
        self.client.set_tag(self.child, "duration_s", f"{seconds:.1f}")
        for run in (self.child, self.parent):
            self.client.set_terminated(run, status)

    def _experiment_id(self) -> str:
        """Find or create the experiment; with a database its files lie next to the project."""
        if experiment := self.client.get_experiment_by_name(self.experiment):
            return str(experiment.experiment_id)
        files = (self.root / FILES).as_uri() if self.database else None
        return str(self.client.create_experiment(self.experiment, artifact_location=files, tags=MODEL_TRAINING))

    def _log_params(self, run: str, settings: Mapping[str, Any]) -> None:
        """Log settings under their dotted keys."""
        from mlflow.entities import Param

        params = [Param(key, as_text(value)[:PARAM_CHARACTERS]) for key, value in leaves(settings)]
        for batch in batches(params, PARAMS_A_BATCH):
            self.client.log_batch(run, params=batch)


def experiment_number(uri: str, name: str) -> str | None:
    """The number of an experiment in MLflow's addresses, or None where nothing was logged to it."""
    from mlflow import MlflowClient

    experiment = MlflowClient(uri).get_experiment_by_name(name)
    return None if experiment is None else str(experiment.experiment_id)


def is_retryable(error: Exception) -> bool:
    """Say whether the same request may succeed later: nobody answers, or the server is at fault, not the request."""
    from mlflow.exceptions import MlflowException
    from requests import RequestException

    if isinstance(error, MlflowException):
        status = int(error.get_http_status_code())
    elif isinstance(error, RequestException):
        status = 503 if error.response is None else error.response.status_code
    else:
        return isinstance(error, ConnectionError | TimeoutError)
    return status >= 500 or status in (408, 429)


def database_file(uri: str, root: Path) -> Path | None:
    """Return the file of an SQLite address (relative to the project's root), or None for servers."""
    prefix, _, path = uri.partition(":///")
    return root / path.partition("?")[0] if prefix == "sqlite" else None


def prepare_database(path: Path) -> None:
    """Make a database, which appears when it is whole, or bring one up to date that holds nothing but our runs.

    The former state is copied to a file next to it first.

    Raises:
        UserError: it is of another version of MLflow and holds runs of somebody else, whose client an upgrade would
            lock out.
    """
    from mlflow.db import upgrade

    if path.exists():
        # MLflow would try for minutes to open what is no database.
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as connection:
            found = revision_of(connection)
            if found == latest_revision():
                return
            if found is not None and not holds_our_runs_alone(connection):
                raise UserError(
                    f"it holds runs of others, and was written by another version of MLflow, whose clients an upgrade "
                    f"locks out; to agree, run: mlflow db upgrade sqlite:///{path}"
                )
            with closing(sqlite3.connect(path.with_name(f"{path.name}.{found or 'empty'}.bak"))) as copy:
                connection.backup(copy)
        upgrade.main([f"sqlite:///{path}"], standalone_mode=False)
        return
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    upgrade.main([f"sqlite:///{unfinished}"], standalone_mode=False)
    unfinished.replace(path)


def revision_of(connection: sqlite3.Connection) -> str | None:
    """Name the revision of a database's tables; None where it has none. Raises sqlite3.Error for other files."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def latest_revision() -> str:
    """Name the revision that the installed MLflow writes."""
    from alembic.script import ScriptDirectory
    from mlflow.store.db.utils import _get_alembic_config

    return str(ScriptDirectory.from_config(_get_alembic_config("")).get_current_head())


def holds_our_runs_alone(connection: sqlite3.Connection) -> bool:
    """Say whether a database has runs, and all have the tags of a parent or of a stage."""
    ours = f"SELECT run_uuid FROM tags WHERE key IN ('{CONFIGURATION_TAG}', '{STAGE_TAG}')"
    counts = f"SELECT count(*), sum(run_uuid NOT IN ({ours})) FROM runs"
    runs, others = connection.execute(counts).fetchone()
    return runs > 0 and not others


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


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of at most `size` items."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
