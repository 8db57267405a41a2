"""Progress without a terminal: plain lines, and what is said where work was stopped."""

import logging
import os
import re
import signal

import pytest

from unequal.pipeline.engines import StopFilter, interrupt_once
from unequal.pipeline.program import errors_reported
from unequal.runtime import processes, progress


def test_lines_say_steps_images_loss_speed_and_time_left(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 1e-9)
    with progress.progress(1000, "images", label="base", initial=96, step=32) as bar:
        bar.set_postfix(loss="0.1250", refresh=False)
        for _ in range(2):
            bar.update(32)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("base: step 4 of 32, 128 of 1,000 images, loss 0.1250, ")
    assert re.fullmatch(r"base: step 5 of 32, 160 of 1,000 images, loss 0\.1250, \S+ images/s, \d\d:\d\d left", last)


@pytest.mark.parametrize("shown", [True, False])
def test_short_work_and_hidden_work_write_nothing(shown, capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 30.0 if shown else 0.0)
    with progress.progress(8, "batches", shown=shown) as bar:
        bar.update(8)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_stage_says_where_it_was(number, status, capsys, monkeypatch):
    monkeypatch.setattr(processes, "_stopped_at", [])

    def stopped_stage() -> None:
        with errors_reported("train_base"), processes.stop_deferred() as asked:
            os.kill(os.getpid(), number)
            assert asked()
            processes.describe_stop("at step 7 of 1,250")

    with pytest.raises(SystemExit) as ended:
        stopped_stage()
    assert ended.value.code == status
    assert capsys.readouterr().err == "train_base: stopped at step 7 of 1,250; the same command goes on\n"


def test_a_signal_that_arrives_twice_interrupts_once():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt_once()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_snakemake_that_is_stopped_reports_stages_and_no_errors(tmp_path, capsys):
    logger, log, stop = logging.Logger("snakemake"), list[str](), StopFilter()
    logger.addFilter(stop)
    handler = logging.Handler()
    handler.emit = lambda record: log.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    (tmp_path / "train_base.log").write_text(
        "step 6 of 9\ntrain_base: stopped at step 7 of 9; the same command goes on\n"
    )
    (tmp_path / "finished.log").write_text("")
    logger.error("Error in rule before")
    stop.report(tmp_path)
    assert capsys.readouterr().err == ""
    for line in ("Terminating processes on user request, this might take some time.", "Error in rule train_base:"):
        logger.error(line)
    assert log == ["Error in rule before", "Stopping: running stages save their state first."]
    stop.report(tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        "train_base: stopped at step 7 of 9; the same command goes on",
        "Stopped; the same command goes on.",
    ]
