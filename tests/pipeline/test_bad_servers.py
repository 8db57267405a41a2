"""Bad tracking servers and databases: the stage says so once, goes on, and ends well with the same files."""

import contextlib
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from refusals import half_written
from stage_project import RUNTIME, Recorder

from unequal.pipeline import mlflow_logger, tracker
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import content_hash
from unequal.settings.strict import StageSettings

pytestmark = pytest.mark.usefixtures("_impatient")


class Settings(StageSettings):
    """Settings of the stage."""

    seed: int


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    run.output("artifacts/made.txt").write_text("made")
    for step in range(20):
        run.log({"loss": 1 / (step + 1)}, step)
    run.metrics("results/made.json", {"score": 2.5}, headline={"score": 2.5})


@pytest.fixture
def _impatient(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tracker, "LAST_SECONDS", 0.0)
    monkeypatch.setattr(mlflow_logger, "LOCK_SECONDS", 0.2)
    for name in ("MLFLOW_TRACKING_URI", "DVC_EXP_NAME"):
        monkeypatch.delenv(name, raising=False)


Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, body: bytes, kind: str = "application/json") -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def endless(request: BaseHTTPRequestHandler) -> None:
    """A body without end, as fast as it is read, until the server is closed."""
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.end_headers()
    with contextlib.suppress(OSError):
        while request.server.socket.fileno() >= 0:
            request.wfile.write(b" " * 1_000_000)


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """The address of a server that answers every request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        serving.daemon_threads, serving.block_on_close = True, False
        threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@contextmanager
def nobody() -> Iterator[str]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{one.getsockname()[1]}"
    yield address


@contextmanager
def at(uri: str, make: Callable[[], object] = lambda: None) -> Iterator[str]:
    make()
    yield uri


def locked(path: str) -> None:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
    connection.execute("BEGIN EXCLUSIVE")
    HELD.append(connection)


HELD: list[sqlite3.Connection] = []

SERVERS: dict[str, Callable[[], Any]] = {
    "nobody there": nobody,
    "an error": lambda: server(status(500, b"oops")),
    "a web page": lambda: server(status(200, b"<html>Sign in</html>", "text/html")),
    "other keys": lambda: server(status(200, b'{"colour": "red"}')),
    "hanging up": lambda: server(lambda request: request.connection.close()),
    "an endless body": lambda: server(endless),
    "silence": lambda: server(lambda _: time.sleep(5)),
    "an unknown scheme": lambda: at("carrier-pigeon://loft"),
    "a folder for a file": lambda: at("sqlite:///here", lambda: Path("here").mkdir()),
    "a text for a database": lambda: at("sqlite:///notes.txt", lambda: Path("notes.txt").write_text("x" * 5000)),
    "a file in the way": lambda: at("sqlite:///file/mlflow.db", lambda: Path("file").touch()),
    "a locked database": lambda: at("sqlite:///held.db", lambda: locked("held.db")),
}


def write_settings(uri: str | None) -> None:
    tracking = RUNTIME["tracking"] | {"uri": uri, "timeout_s": 0.5}
    Path("params.yaml").write_text(yaml.safe_dump({"seed": 0, "runtime": RUNTIME | {"tracking": tracking}}))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("made"))
        write_settings("nowhere://")
        patch.setattr("unequal.pipeline.stage.Tracker", Recorder)
        assert CliRunner().invoke(main, []).exit_code == 0
        return hashes()


def hashes() -> list[str]:
    return [content_hash(Path(name)) for name in ("artifacts/made.txt", "results/made.json")]


@pytest.mark.parametrize("bad", SERVERS)
def test_a_stage_goes_on_without_a_good_server(bad, made, capfd):
    try:
        with SERVERS[bad]() as uri:
            write_settings(uri)
            with pytest.raises(SystemExit) as ended:
                main([])
    finally:
        while HELD:
            HELD.pop().close()
    assert ended.value.code == 0
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"tracking: {uri}"), said
    assert said.removesuffix("\n").isprintable()
    assert hashes() == made
    assert half_written() == [] and not any(Path("work").glob("test_bad_servers-*"))
