"""Databases and addresses of servers: what is migrated, and that no secret is shown."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from one_line import refusal

from unequal.pipeline.store import CONFIGURATION_TAG, StageExecution, Store, database_file, prepare_database
from unequal.pipeline.tracker import without_credentials
from unequal.settings.training import Tracking

TRACKING: dict[str, Any] = {"experiment": "tests", "artifact_limit_mb": 0.001, "timeout_s": 60.0}


@pytest.fixture
def database(tmp_path, empty_database):
    return Path(shutil.copy(empty_database, tmp_path / "mlflow.db"))


def test_a_database_of_the_users_choice_counts_from_the_root(tmp_path):
    assert database_file("sqlite:///runs/own.db", tmp_path) == tmp_path / "runs/own.db"
    assert database_file("sqlite:////data/own.db", tmp_path) == Path("/data/own.db")
    assert database_file("http://127.0.0.1:5000", tmp_path) is None


def with_a_run_of(path: Path, *tags: str) -> None:
    client = MlflowClient(f"sqlite:///{path}")
    number = len(client.search_experiments())
    experiment = client.create_experiment(f"number {number}", artifact_location=path.with_name("files").as_uri())
    client.create_run(experiment, tags=dict.fromkeys(tags, "x"))


@pytest.mark.parametrize(("tags", "ours"), [((CONFIGURATION_TAG,), True), (("stage",), True), ((), False)])
def test_a_database_with_runs_of_others_is_not_migrated(database, monkeypatch, tags, ours):
    upgraded, backup = list[str](), database.with_name("mlflow.db.an-older-one.bak")
    monkeypatch.setattr("mlflow.db.upgrade.main", lambda words, **_: upgraded.extend(words))
    with_a_run_of(database, CONFIGURATION_TAG)
    with_a_run_of(database, *tags)
    prepare_database(database)
    assert (upgraded, backup.exists()) == ([], False), "of its own revision it is left as it is"
    with sqlite3.connect(database) as connection:  # as an older MLflow has left it
        connection.execute("UPDATE alembic_version SET version_num = 'an-older-one'")
    before = database.read_bytes()
    if ours:
        prepare_database(database)
        assert upgraded == [f"sqlite:///{database}"]
        with sqlite3.connect(backup) as copy:
            assert copy.execute("SELECT count(*) FROM runs").fetchone() == (2,)
        return
    line = refusal(prepare_database, database)
    assert "holds runs of others" in line
    assert line.endswith(f"to agree, run: mlflow db upgrade sqlite:///{database}")
    assert (upgraded, database.read_bytes(), backup.exists()) == ([], before, False)


@pytest.mark.parametrize(
    ("uri", "secret"),
    [
        ("http://ann:pa/ss@host:5000", "pa/ss"),
        ("http://ann:p@ss/w@host:5000", "p@ss"),
        ("postgresql://ann:pa%2Fss@host/db", "pa/ss"),
        ("http://host:5000/?token=abc123", "abc123"),
        ("http://host:5000/?a=b&token=abc123/api", "abc123"),
    ],
)
def test_an_address_never_shows_its_secrets(uri, secret):
    text = f"tracking: {uri}: no answer from {uri}/api/2.0/mlflow: ('{uri}')"
    assert secret not in without_credentials(text, uri)
    with pytest.raises(ValueError, match="uri: holds a password or a query; set the environment variables") as refusal:
        Tracking.model_validate(TRACKING | {"uri": uri})
    assert secret not in str(refusal.value.errors(include_input=False))


@pytest.mark.parametrize("uri", ["http://ann@host", "sqlite:///a:b@c/mlflow.db", "http://host/a@b", "databricks"])
def test_an_address_without_secrets_is_taken(uri):
    assert Tracking.model_validate(TRACKING | {"uri": uri}).uri == uri


def test_credentials_alone_are_taken_out_of_a_text():
    text = "request to https://me:p@ss@host:5000/api failed, see http://host/a@b"
    assert without_credentials(text) == "request to https://host:5000/api failed, see http://host/a@b"


def test_a_database_that_a_stranger_holds_is_tried_again(database):
    store = Store(f"sqlite:///{database}", database.parent, "tests", StageExecution("train", {}, {}, {}, {}))
    attempts: list[Store] = []

    def task(given: Store) -> None:
        attempts.append(given)
        if len(attempts) < 3:
            raise RuntimeError("(sqlite3.OperationalError) database is locked")

    store.attempt(task)
    assert attempts == [store] * 3
    with pytest.raises(KeyError):
        store.attempt(lambda _: {}["no such thing"])
