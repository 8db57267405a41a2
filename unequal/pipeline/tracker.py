"""The log of one stage execution; logging never fails the stage and never delays it.

A stage puts calls of a logger into a queue; a thread makes the logger and does them. While a server is away the thread
tries again, and then sends all that has gathered. The first problem is reported in one line, and the stage goes on.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unequal.errors import UserError, plain, say
from unequal.pipeline.logger import Execution, Logger, Point, logger_class
from unequal.pipeline.naming import leaves
from unequal.pipeline.secrets import without_secrets
from unequal.runtime.files import content_hash, files_below, read_json
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
    """The log of one stage execution. Only `finish` waits, for a bounded time."""

    def __init__(self, tracking: Tracking, execution: Execution, active: bool = True) -> None:
        """
        Args:
            tracking: where to log.
            execution: what is logged.
            active: false for a tracker that does nothing.

        Raises:
            UserError: there is no such logger.
        """
        self._tracking, self._silent, self._reported = tracking, not active, False
        self._settings = {key for key, _ in leaves(execution.settings)}
        self._calls: SimpleQueue[tuple[str, dict[str, Any]] | None] = SimpleQueue()
        self._points: list[Point] = []
        self._flushed = time.monotonic()
        self._open, self._closing = threading.Event(), threading.Event()
        self._logger = logger_class(tracking.logger)
        self._thread = threading.Thread(target=self._work, args=(execution,), daemon=True)
        if active:
            self._thread.start()

    def input(self, path: Path) -> None:
        """Log the facts of prepared data; other inputs are not logged."""
        if (path / "facts.json").is_file():
            self.params({"data": read_json(path / "facts.json")})

    def params(self, values: Mapping[str, Any]) -> None:
        """Log what figures depend on: counts, texts and truth values."""
        self._put("params", values={k: v for k, v in leaves(values) if isinstance(v, bool | int | float | str)})

    def log(self, metrics: Mapping[str, float], step: int, parent: bool = False) -> None:
        """Add a point to each of some curves."""
        now = round(time.time() * 1000)
        points = [Point(name, float(value), step, now) for name, value in metrics.items()]
        if parent:
            self._put("metrics", points=points, parent=True)
            return
        self._points += points
        # While the server is away points gather; few requests send them when it is back.
        if time.monotonic() - self._flushed > FLUSH_SECONDS and self._calls.empty():
            self._flush()

    def results(self, content: Mapping[str, Any]) -> None:
        """Log a JSON document: measured numbers as figures, `{"fid": {"mean": 3.0}}` as `fid.mean`, the rest as params.

        All of a model's spec are params: no training scatters them. The last point of a curve, `final_loss`, is left
        out: it would be a chart of a single bar.
        """
        values = {key: value for key, value in leaves(content) if key not in self._settings}
        values = {key: value for key, value in values.items() if not key.startswith("final_loss.")}
        figures = {key: value for key, value in values.items() if isinstance(value, float) and key[:5] != "spec."}
        self.log(figures, step=0)
        self.params({key: value for key, value in values.items() if key not in figures})

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        """Log an image, uint8 [C, H, W], as one of a series over steps."""
        self._put("picture", name=name, image=image, step=step)

    def artifacts(self, paths: Sequence[Path], parent: bool = False) -> None:
        """Log files and folders: small files as they are, large ones as a reference, by which DVC finds them.

        Those are hashed here, so that this time does not count as the server's.
        """
        if self._silent:
            return
        files: dict[str, Path | str] = {}
        for file in (file for path in paths for file in files_below(path)):
            name, size = file.as_posix(), file.stat().st_size
            if size > self._tracking.artifact_limit_mb * 1e6:
                reference = {"path": name, "md5": content_hash(file, "md5"), "size": size}
                files[f"{name}.reference.json"] = json.dumps(reference)
            else:
                files[name] = file.absolute()
        self._put("artifacts", files=files, parent=parent)

    def register(self, name: str, model: Path, timesteps: Sequence[int], sampling: "Sampling") -> None:
        """Register a model by its folder, with the timesteps and settings by which it is sampled."""
        self._put("register", name=name, model=model.absolute(), timesteps=timesteps, sampling=sampling)

    def finish(self, status: str) -> None:
        """End the run with `FINISHED`, `FAILED` or `KILLED`; wait for the server for `timeout_s` at most."""
        if self._silent:
            return
        self._flush()
        self._put("finish", status=status)
        self._calls.put(None)
        self._closing.set()
        # Importing MLflow and making a database take time of this machine, not of the server.
        self._open.wait()
        self._thread.join(self._tracking.timeout_s)
        if self._thread.is_alive():
            self._give_up(f"no answer within {self._tracking.timeout_s:g} s")

    def _put(self, method: str, **arguments: Any) -> None:
        """Queue a call of the logger, unless nobody will do it, or it has nothing to log."""
        if not self._silent and next(iter(arguments.values())) not in ({}, []):
            self._calls.put((method, arguments))

    def _flush(self) -> None:
        """Queue the points gathered so far."""
        self._put("metrics", points=self._points)
        self._points, self._flushed = [], time.monotonic()

    def _work(self, execution: Execution) -> None:
        """Make the logger, then do the calls as they come; runs in the thread."""
        try:
            logger = self._insist(lambda: self._logger(self._tracking, execution))
            self._open.set()
            self._call(logger, "start", {})
            while (queued := self._calls.get()) is not None:
                try:
                    self._call(logger, *queued)
                except Exception as error:
                    if self._silent:
                        return
                    self._report(f"{reason_of(error)}; the rest is logged")
        except Exception as error:
            self._give_up(reason_of(error))
        finally:
            self._open.set()

    def _call(self, logger: Logger, method: str, arguments: Mapping[str, Any]) -> None:
        def action() -> None:
            with logger.alone():
                getattr(logger, method)(**arguments)

        self._insist(action)

    def _insist(self, action: Callable[[], T]) -> T:
        """Do an action; while the server is away, try again as long as anybody waits for the result."""
        last_attempts = LAST_ATTEMPTS
        for delay in chain(AGAIN_SECONDS, repeat(AGAIN_SECONDS[-1])):
            try:
                return action()
            except Exception as error:
                if self._silent or not last_attempts or not self._logger.is_retryable(error):
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
            self._report(f"{reason}; going on without a log")

    def _report(self, reason: str) -> None:
        """Report a problem, the first time alone."""
        if not self._reported:
            self._reported = True
            address = self._logger.address(self._tracking)
            problem, _, consequence = plain(f"tracking: {address}: {reason}").rpartition("; ")
            say(f"{without_secrets(problem, address)[:LONGEST_REASON]}; {consequence}", err=True)


def reason_of(error: Exception) -> str:
    """Return an error's kind and message; of a refusal the message."""
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
