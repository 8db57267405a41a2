"""Databases and addresses of servers: what is migrated, and that no secret is shown."""

import shutil
import sqlite3
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from unequal.pipeline.logger import Execution
from unequal.pipeline.mlflow_logger import MlflowLogger, database_file
from unequal.pipeline.secrets import without_secrets
from unequal.pipeline.tracker import Tracker
from unequal.settings.training import Tracking

TRACKING: dict[str, Any] = {"experiment": "tests", "artifact_limit_mb": 0.001, "timeout_s": 60.0}


@pytest.fixture
def database(tmp_path, empty_database):
    return Path(shutil.copy(empty_database, tmp_path / "mlflow.db"))


def test_a_database_of_the_users_choice_counts_from_the_root(tmp_path):
    assert database_file("sqlite:///runs/own.db", tmp_path) == tmp_path / "runs/own.db"
    assert database_file("sqlite:////data/own.db", tmp_path) == Path("/data/own.db")
    assert database_file("http://127.0.0.1:5000", tmp_path) is None


def test_a_database_of_another_mlflow_is_left_as_it_is(database, monkeypatch, capsys):
    monkeypatch.chdir(database.parent)
    with sqlite3.connect(database) as connection:  # as an older MLflow has left it
        connection.execute("UPDATE alembic_version SET version_num = 'an-older-one'")
    before = database.read_bytes()
    tracking = Tracking(uri=f"sqlite:///{database}", **TRACKING)
    Tracker(tracking, Execution("train", {}, {}, {}, {})).finish("FINISHED")
    assert "mlflow db upgrade" in capsys.readouterr().err
    assert database.read_bytes() == before


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
    assert secret not in without_secrets(text, uri)
    with pytest.raises(ValueError, match="uri: holds a password or a query; set the environment variables") as refusal:
        Tracking.model_validate(TRACKING | {"uri": uri})
    assert secret not in str(refusal.value.errors(include_input=False))


@pytest.mark.parametrize("uri", ["http://ann@host", "sqlite:///a:b@c/mlflow.db", "http://host/a@b", "databricks"])
def test_an_address_without_secrets_is_taken(uri):
    assert Tracking.model_validate(TRACKING | {"uri": uri}).uri == uri


def test_credentials_alone_are_taken_out_of_a_text():
    text = "request to https://me:p@ss@host:5000/api failed, see http://host/a@b"
    assert without_secrets(text) == "request to https://host:5000/api failed, see http://host/a@b"


def test_a_database_that_a_stranger_holds_is_tried_again():
    assert MlflowLogger.is_retryable(RuntimeError("(sqlite3.OperationalError) database is locked"))
    assert not MlflowLogger.is_retryable(KeyError("no such thing"))


def test_a_secret_is_not_shown_in_any_form(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "to/ken=1")
    uri = "http://ann:pa/ss@host"
    forms = ["pa/ss", "pa%2Fss", "ss/ap", b64encode(b"ann:pa/ss").decode(), b64encode(b"pa/ss").decode(), "1=nek/ot"]
    shown = without_secrets(" ".join(forms), uri)
    assert [form for form in forms if form.rstrip("=") in shown] == []
    assert without_secrets("see http://host/a#token=abc;PWD=def") == "see http://host/a#token=…;PWD=…"
