"""Log one stage execution; logging never fails the stage and never delays it.

A stage puts tasks into a queue; a thread imports MLflow and does them. While the server is away the thread tries again,
and then sends all that has gathered. The first problem is reported in one line, and the stage goes on. MLflow's own
asynchronous logging covers points alone, and drops those that it fails to send.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

import numpy as np

from unequal.errors import UserError, plain, say
from unequal.pipeline.naming import leaves
from unequal.pipeline.store import Point, Reference, StageExecution, Store, is_retryable
from unequal.pipeline.workdirs import project_root
from unequal.runtime.files import content_hash, files_below
from unequal.settings.training import Tracking

if TYPE_CHECKING:
    from unequal.settings.evaluation import Sampling

#: How long points of curves are gathered before they are sent.
FLUSH_SECONDS = 1.0
#: Waits for a server that is away, after the first failures; the last wait follows every later one.
AGAIN_SECONDS = (1.0, 3.0, 10.0, 30.0)
#: Attempts, and the wait between them, once the stage has ended.
LAST_ATTEMPTS, LAST_SECONDS = 5, 0.5
#: Characters of a problem that are shown.
LONGEST_REASON = 400

T = TypeVar("T")


class Tracker:
    """The log of one stage execution. No method raises, and only `finish` waits, for a bounded time."""

    def __init__(self, tracking: Tracking, execution: StageExecution, active: bool = True) -> None:
        """
        Args:
            tracking: where to log.
            execution: what is logged.
            active: false for a tracker that does nothing.
        """
        self._tracking = tracking
        self._silent = not active
        self._settings = {key for key, _ in leaves(execution.settings)}
        self._reported = False
        self._tasks: SimpleQueue[Callable[[Store], None] | None] = SimpleQueue()
        self._points: list[Point] = []
        self._flushed = self._started = time.monotonic()
        self._open, self._closing = threading.Event(), threading.Event()
        self._uri = tracking_uri(tracking)
        quieten(tracking.timeout_s)
        self._thread = threading.Thread(target=self._work, args=(execution, project_root()), daemon=True)
        if active:
            self._thread.start()

    def input(self, path: Path) -> None:
        """Log prepared data as the data set of the execution; other inputs are not logged."""
        if (path / "facts.json").is_file():
            self._put(partial(Store.log_dataset, path=path.absolute()))

    def tags(self, tags: Mapping[str, str]) -> None:
        self._put(partial(Store.log_tags, tags=dict(tags)))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add a point to each of some curves."""
        self._points += points(metrics, step)
        # While the server is away points gather; few requests send them when it is back.
        if time.monotonic() - self._flushed > FLUSH_SECONDS and self._tasks.empty():
            self._flush()

    def results(self, content: Mapping[str, Any]) -> None:
        """Log a JSON document: its measured numbers as figures, `{"fid": {"mean": 3.0}}` as `fid.mean`; counts, texts,
        truth values and a model's spec, which no training or sampling scatters, as params `conditions.…`.

        The last point of a curve, `final_loss`, would be a chart of a single bar, and is left out."""
        found = {key: value for key, value in leaves(content) if key not in self._settings}
        found = {key: value for key, value in found.items() if not key.startswith("final_loss.")}
        figures = {key: one for key, one in found.items() if isinstance(one, float) and not key.startswith("spec.")}
        self.log(figures, step=0)
        others = {key: value for key, value in found.items() if key not in figures}
        constants = {key: value for key, value in others.items() if isinstance(value, bool | int | float | str)}
        if constants:
            self._put(partial(Store.log_conditions, content=constants))

    def register(self, name: str, model: Path, timesteps: Sequence[int], sampling: "Sampling") -> None:
        """Register a model by its folder, with the timesteps and settings by which it is sampled."""
        folder = model.absolute()

        def task(store: Store) -> None:
            from unequal.pipeline.registry import register

            register(store.client, store.child, f"{store.experiment}-{name}", folder, timesteps, sampling)

        self._put(task)

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Log an image, uint8 [C, H, W], as one of a series over steps."""
        self._put(partial(Store.log_picture, name=name, image=image, step=step))

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._put(partial(Store.log_table, name=name, rows=rows))

    def parent_results(self, metrics: Mapping[str, float]) -> None:
        self._put(partial(Store.log_points, points=points(metrics, step=0), parent=True))

    def artifacts(self, paths: Sequence[Path], parent: bool = False) -> None:
        """Log files and folders: small files as they are, large ones as a reference.

        Those are hashed here, so that this time does not count as the server's.
        """
        if self._silent:
            return
        small, large = [], []
        for file in (file for path in paths for file in files_below(path)):
            size = file.stat().st_size
            if size > self._tracking.artifact_limit_mb * 1e6:
                large.append(Reference(file.as_posix(), content_hash(file, "md5"), size))
            else:
                small.append((file.absolute(), file.parent.as_posix()))
        self._put(partial(Store.log_files, files=small, references=large, parent=parent))

    def parent_artifacts(self, paths: Sequence[Path]) -> None:
        self.artifacts(paths, parent=True)

    def finish(self, status: str) -> None:
        """End the run with `FINISHED`, `FAILED` or `KILLED`; wait for the server for `timeout_s` at most."""
        if self._silent:
            return
        self._flush()
        self._put(partial(Store.finish, status=status, seconds=time.monotonic() - self._started))
        self._tasks.put(None)
        self._closing.set()
        # Importing MLflow and making a database take time of this machine, not of the server.
        self._open.wait()
        self._thread.join(self._tracking.timeout_s)
        if self._thread.is_alive():
            self._give_up(f"no answer within {self._tracking.timeout_s:g} s")

    def _put(self, task: Callable[["Store"], None]) -> None:
        """Queue a task, unless nobody will do it."""
        if not self._silent:
            self._tasks.put(task)

    def _flush(self) -> None:
        """Queue the points gathered so far."""
        self._put(partial(Store.log_points, points=self._points))
        self._points, self._flushed = [], time.monotonic()

    def _work(self, execution: StageExecution, root: Path) -> None:
        """Open the store, then do the tasks as they come; runs in the thread."""
        try:
            store = self._insist(lambda: Store(self._uri, root, self._tracking.experiment, execution))
            self._open.set()
            for task in (Store.find_parent, Store.create_child, Store.describe_child):
                self._insist(partial(store.attempt, task))
            while (queued := self._tasks.get()) is not None:
                try:
                    self._insist(partial(store.attempt, queued))
                except Exception as error:
                    if self._silent:
                        return
                    self._report(f"{reason_of(error)}; the rest is logged")
        except Exception as error:
            self._give_up(reason_of(error))
        finally:
            self._open.set()

    def _insist(self, action: Callable[[], T]) -> T:
        """Do an action; while the server is away, try again as long as anybody waits for the result."""
        last_attempts = LAST_ATTEMPTS
        for delay in chain(AGAIN_SECONDS, repeat(AGAIN_SECONDS[-1])):
            try:
                return action()
            except Exception as error:
                if self._silent or not is_retryable(error):
                    raise
                if not last_attempts:
                    self._give_up(reason_of(error))
                    raise
                self._open.set()
                self._report(f"{reason_of(error)}; going on, what is logged is sent when it answers")
            if self._closing.wait(delay):
                last_attempts -= 1
                time.sleep(LAST_SECONDS)
        raise AssertionError("the waits have no end")

    def _give_up(self, reason: str) -> None:
        """Stop logging."""
        if not self._silent:
            self._silent = True
            self._report(f"{reason}; going on without MLflow")

    def _report(self, reason: str) -> None:
        """Report a problem, the first time alone."""
        if not self._reported:
            self._reported = True
            problem, _, consequence = plain(f"tracking: {self._uri}: {reason}").rpartition("; ")
            say(f"{without_credentials(problem, self._uri)[:LONGEST_REASON]}; {consequence}", err=True)


def reason_of(error: Exception) -> str:
    """Return an error's kind and message; of a refusal the message."""
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def tracking_uri(tracking: Tracking) -> str:
    """Return the setting, else MLflow's own environment variable, else a database next to the project."""
    return tracking.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{project_root() / 'mlflow.db'}"


def without_credentials(text: str, uri: str = "") -> str:
    """Remove `user:password@` and the values of queries from all addresses of a text.

    Args:
        text: that is to be shown.
        uri: an address whose parts the text may quote; its password may hold slashes and signs of any kind.
    """
    user, at, _ = uri.partition("://")[2].rpartition("@")
    own = [user, user.partition(":")[2]] if at and ":" in user and not uri.startswith("sqlite") else []
    own += [os.environ.get(name, "") for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    for secret in sorted({form for one in own for form in (one, quote(one, ""), unquote(one)) if form}, key=len)[::-1]:
        text = text.replace(f"{secret}@", "").replace(secret, "…")
    return re.sub(r"([?&][^=&\s]+=)[^&\s'\")]+", r"\1…", re.sub(r"//[^/\s]*@", "//", text))


def quieten(timeout_s: float) -> None:
    """Set short waits and no chatter for MLflow, unless the user's environment says otherwise.

    To be called before MLflow is imported.
    """
    for name, value in {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": f"{max(1, round(timeout_s))}",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_LOGGING_LEVEL": "CRITICAL",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }.items():
        os.environ.setdefault(name, value)
    for logger in ("alembic", "urllib3"):
        logging.getLogger(logger).setLevel(logging.ERROR)


def points(metrics: Mapping[str, float], step: int) -> list[Point]:
    """Make points of curves of metrics, at this moment."""
    now = round(time.time() * 1000)
    return [Point(name, float(value), now, step) for name, value in metrics.items()]
