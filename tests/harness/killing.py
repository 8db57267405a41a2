"""Stages killed at random moments and run again until they are done; what comes of it, byte by byte."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from harness.server import Server
from harness.starting import Command, Commands, Running, Starter, log_of
from harness.traces import Stage, Unexpected, clear, leaving, made_by, saved, works
from unequal.files import files_below
from unequal.saved import saved_or_none
from unequal.training.checkpoint import previous_path
from unequal.training.loop import CHECKPOINT

#: Budgets of a tiny project whose long stages save many times in a second or two.
SETTINGS: dict[str, object] = {
    "training.log_every": 7,
    "training.checkpoint_every": 10,
    "training.batch_size": 32,
    "recipes.base.images": 3200,
    "recipes.expert.images": 1600,
    "profiled_models": ["base"],
    "variants": ["base", "experts_pruned"],
    "profile.images": 8,
    "pruning.expert.rounds": 3,
    "sampling.steps": 10,
    "sampling.batch_size": 20,
    "evaluation.samples": 400,
    "evaluation.kid_subset": 100,
    "runtime.tracking.timeout_s": 20,
}
#: Stage instances that save something on their way, each behind those that it needs, and what it is that they save.
LONG_STAGES = {
    "train_base": "steps",
    "profile_floor": "parts",
    "profile_loss@base": "parts",
    "prune@0": "candidates",
    "finetune_groups@0": "steps",
    "evaluate_fid@experts_pruned": "parts",
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
#: What is hit: a stage, its engine with it, as by a power cut, its engine alone, one of the processes that share the
#: stage, the tracking server.
STAGE, BOTH, ENGINE, SHARER, SERVER = "stage", "stage and engine", "engine", "sharing process", "tracking server"
#: Share of the kills that hit a stage on its way out: what it has made is written, moved into place, or recorded.
LATE = 0.3
#: Share of the kills of a stage after which a bit of what it has left is flipped.
SPOILED = 0.5
#: Longest wait for a stage that is not killed, or has been, in seconds.
PATIENCE = 300
#: Between two looks at what goes on, in seconds.
GLANCE = 0.01
#: Longest time between what shows that a stage is on its way out and a kill.
LEAVING_SECONDS = 1.0
#: So often a stage is killed in a row, at most.
IN_A_ROW = 12

#: Waits for the moment of a kill: the status of a process that has ended before, or None.
Until = Callable[[Running], int | None]


@dataclass(frozen=True)
class Kill:
    """A kill: during which stage, by which signal, how much it had saved by then, what was hit, whether that was on the
    stage's way out, and the file in which a bit was flipped afterwards."""

    stage: str
    signal: str
    saved: int
    hit: str = STAGE
    late: bool = False
    spoiled: str | None = None


@dataclass
class Killer:
    """Kills the stages of a project and keeps account of what comes of it."""

    project: Path
    seconds: Mapping[str, float]
    expected: Mapping[str, Mapping[str, str]]
    random: Random
    kills: list[Kill] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    compared: int = 0
    differing: list[str] = field(default_factory=list)

    def run(self, stage: Stage, starter: Starter, hits: Sequence[str] = (STAGE,)) -> None:
        """Kill a stage and start it again until it has come to its end, and compare what it has made."""
        clear(self.project, stage)
        for _ in range(IN_A_ROW):
            if self.attempt(stage, starter.start(stage.words), self.moment(stage), self.random.choice(hits)):
                break
        else:
            self.attempt(stage, starter.start(stage.words), never)
        self.compare(stage)

    def moment(self, stage: Stage) -> Until:
        """A random moment of the CPU time that a stage takes, or of its way out."""
        if self.random.random() < LATE:
            return once_leaving(self.project, stage, self.random.uniform(0, LEAVING_SECONDS))
        return once_used(self.random.uniform(0, self.seconds[stage.name]))

    def attempt(self, stage: Stage, running: Running, until: Until, hit: str = STAGE) -> bool:
        """Let a stage run up to a moment and kill it, or one of its processes; whether it has come to its end before.

        Raises Unexpected where it ends in any other way.
        """
        late, number = False, signal.SIGKILL if hit == SHARER else self.random.choice(SIGNALS)
        # A launcher fails with the process that was killed, or is killed itself while it has none.
        ends = (-number, 1 if hit == SHARER else 128 + number)
        try:
            if (status := until(running)) is None:
                late = leaving(self.project, stage)
                end(self.random.choice(sharers(running.pid)) if hit == SHARER else running.pid, number)
                status = running.ended(PATIENCE)
        finally:
            if running.ended(0) is None:
                end(running.pid, signal.SIGKILL)
        if status == 0:
            self.finished.append(stage.name)
            return True
        if status not in ends:
            raise Unexpected(f"{stage.name} ended with {status}: {said(self.project)}")
        kept = saved(self.project, stage)
        self.kills.append(Kill(stage.name, number.name, kept, hit, late, self.spoil(stage)))
        return False

    def spoil(self, stage: Stage) -> str | None:
        """Flip a bit in a file that a stage has left, or none; return the file's name."""
        files = [file for work in works(self.project, stage) for file in spoilable(work)]
        if not files or self.random.random() >= SPOILED:
            return None
        content = bytearray((file := self.random.choice(files)).read_bytes())
        content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        with file.open("r+b") as stream:  # in place, as a disk does
            stream.write(content)
        return file.name

    def through(self, words: Sequence[str], stages: Sequence[Stage], hits: Sequence[str]) -> None:
        """Run an engine again until it is done, while the stages that it runs are killed, and compare all in the end.

        Args:
            words: the engine's command.
            stages: that it will run.
            hits: what is killed, in equal shares: STAGE, BOTH or ENGINE.
        """
        for _ in range(IN_A_ROW * len(stages)):
            engine = Commands(self.project).start(words)
            try:
                for stage, process in children(engine, stages):
                    self.kill_child(stage, process, engine, self.random.choice(hits))
                status = engine.ended(PATIENCE)
            finally:
                if engine.ended(0) is None:
                    os.killpg(engine.pid, signal.SIGKILL)
            if status == 0:
                break
        else:
            raise Unexpected(f"{' '.join(words)} never ended: {said(self.project)}")
        for stage in stages:
            self.finished.append(stage.name)
            self.compare(stage)

    def kill_child(self, stage: Stage, process: psutil.Process, engine: Command, hit: str) -> None:
        """Kill a stage that an engine has started, at a random moment or never, and the engine, or that one alone."""
        number = self.random.choice(SIGNALS) if hit == STAGE else signal.SIGKILL
        seconds, late = self.random.uniform(0, 1.5 * self.seconds[stage.name]), self.random.random() < LATE
        while (used := cpu_seconds(process)) is not None:
            if leaving(self.project, stage, process.create_time()) if late else used >= seconds:
                break
            time.sleep(GLANCE)
        if used is None:
            return
        late = leaving(self.project, stage, process.create_time())
        if hit != STAGE:
            end(engine.pid, number)
        if hit != ENGINE:
            end(process.pid, number)
            process.wait(PATIENCE)
        self.kills.append(Kill(stage.name, number.name, saved(self.project, stage), hit, late))

    def without(self, server: Server, stage: Stage, starter: Starter) -> None:
        """Kill the tracking server under a stage, which ends well all the same, and compare what it has made."""
        clear(self.project, stage)
        server.start()
        running = starter.start(stage.words)
        if (status := once_used(self.random.uniform(0, self.seconds[stage.name]))(running)) is None:
            server.kill()
            self.kills.append(Kill(stage.name, signal.SIGKILL.name, saved(self.project, stage), SERVER))
            status = running.ended(PATIENCE)
        if status != 0:
            raise Unexpected(f"{stage.name} ended with {status}: {said(self.project)}")
        self.finished.append(stage.name)
        self.compare(stage)

    def compare(self, stage: Stage) -> None:
        """Note which files of a finished stage are not as expected."""
        found, expected = made_by(self.project, stage), self.expected[stage.name]
        names = sorted({*found, *expected})
        self.compared += len(names)
        self.differing += [name for name in names if found.get(name) != expected.get(name)]


def spoilable(work: Path) -> list[Path]:
    """Files of a work directory of which a run promises to notice a flipped bit, and to need no person."""
    files = [file for file in files_below(work) if file.stat().st_size]
    return [file for file in files if (other := other_state(file)) is None or saved_or_none(other) is not None]


def other_state(file: Path) -> Path | None:
    """The state before the last one for the last one, and the other way round; None for any other file."""
    if file.name == CHECKPOINT:
        return previous_path(file)
    return file.with_name(CHECKPOINT) if file.name == previous_path(file.with_name(CHECKPOINT)).name else None


def never(running: Running) -> int | None:
    """No kill."""
    return running.ended(PATIENCE)


def once_used(seconds: float) -> Until:
    """The moment at which a stage has used so much CPU time."""

    def until(running: Running) -> int | None:
        process = psutil.Process(running.pid)
        while (status := running.ended(GLANCE)) is None:
            if (used := cpu_seconds(process)) is not None and used >= seconds:
                return None
        return status

    return until


def once_leaving(project: Path, stage: Stage, seconds: float) -> Until:
    """So many seconds after a stage is seen to be on its way out."""

    def until(running: Running) -> int | None:
        while (status := running.ended(GLANCE)) is None:
            if leaving(project, stage):
                return running.ended(seconds)
        return status

    return until


def sharers(launcher: int) -> list[int]:
    """The processes that share a stage; the launcher itself where there are none any more."""
    with suppress(psutil.NoSuchProcess):
        return [one.pid for one in psutil.Process(launcher).children()] or [launcher]
    return [launcher]


def cpu_seconds(process: psutil.Process) -> float | None:
    """CPU time that a process and those that share its work have used, None once it has ended."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        times = [process.cpu_times(), *(one.cpu_times() for one in process.children())]
        return sum(one.user + one.system for one in times)
    except psutil.NoSuchProcess:
        return None if not process.is_running() else 0.0


def once_saved(project: Path, stage: Stage, amount: int) -> Until:
    """The moment at which a stage has saved so much."""

    def until(running: Running) -> int | None:
        while (status := running.ended(GLANCE)) is None:
            with suppress(FileNotFoundError):  # moved while we look
                if saved(project, stage) >= amount:
                    return None
        return status

    return until


def measured(
    project: Path, stages: Sequence[Stage], starter: Starter
) -> tuple[dict[str, float], dict[str, dict[str, str]]]:
    """Run stages without a kill: the CPU seconds of each, and the digests of what it makes. Raises Unexpected."""
    seconds: dict[str, float] = {}
    made: dict[str, dict[str, str]] = {}
    for stage in stages:
        running = starter.start(stage.words)
        process = psutil.Process(running.pid)
        while (status := running.ended(GLANCE)) is None:
            seconds[stage.name] = cpu_seconds(process) or seconds.get(stage.name, 0.0)
        if status:
            raise Unexpected(f"{stage.name} ended with {status}: {said(project)}")
        made[stage.name] = made_by(project, stage)
    return seconds, made


def children(engine: Command, stages: Sequence[Stage]) -> Iterator[tuple[Stage, psutil.Process]]:
    """The stages' processes, as an engine starts them."""
    by_options, seen = {stage.words[1:]: stage for stage in stages}, set[int]()
    while engine.ended(GLANCE) is None:
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(engine.pid).children(recursive=True):
                stage = by_options.get(tuple(process.cmdline()[1:]))
                if stage is not None and process.pid not in seen:
                    seen.add(process.pid)
                    yield stage, process


def end(pid: int, number: int) -> None:
    """Send a signal to a process, which may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def said(project: Path) -> str:
    """The end of what the last command has said."""
    return log_of(project).read_text(encoding="utf-8", errors="replace")[-2000:]
