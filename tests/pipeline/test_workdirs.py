"""Where work directories lie, and which of them are deleted."""

import os
from pathlib import Path

import pytest

from unequal.pipeline.workdirs import (
    NOTE,
    STATES_STORED,
    adopt_states,
    ensure_dir,
    lock_of,
    tidy,
    try_lock,
)
from unequal.runtime.files import files_below
from unequal.runtime.place import home, work_root


@pytest.mark.parametrize("folder", [".", "flowers", ".dvc/tmp/other"])
@pytest.mark.parametrize("copy", [".", ".dvc/tmp/exps/tmpvp4yyc0c", ".dvc/tmp/exps/standalone/tmpx"])
def test_what_outlives_a_run_lies_in_its_folder_and_not_in_a_copy_of_dvc(tmp_path, monkeypatch, folder, copy):
    (tmp_path / copy / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / copy / ".dvc").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / copy / folder)
    assert home() == tmp_path / folder
    assert work_root() == home() / "work"


def state(root: Path, instance: str, number: int) -> Path:
    work = root / f"{instance}-{number:012x}"
    work.mkdir(parents=True)
    (work / "checkpoint").touch()
    os.utime(work, (number, number))
    return work


def test_of_the_states_of_a_stage_instance_the_latest_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "work"
    states = [state(root, "train_base", number) for number in range(STATES_STORED + 5)]
    others = [state(root, name, 0) for name in ("train", "train_base-x", "a_train_base")]
    own, elsewhere, at_work = states[:3]
    (elsewhere / NOTE).touch()  # that of another folder
    os.utime(elsewhere, (1, 1))
    with try_lock(at_work):
        tidy(own, "train_base")
        left = {path for path in root.iterdir() if path.is_dir()}
        assert left == {*states[:3], *states[-STATES_STORED:], *others}
    tidy(own, "train_base")
    assert not at_work.exists()
    assert not Path(lock_of(at_work).lock_file).exists()


def test_a_run_that_differs_by_milestones_alone_adopts_the_newest_state(tmp_path):
    def work(key: str, kin: str, *files: str) -> Path:
        folder = tmp_path / f"train-{key * 12}"
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{key} {name}")
        adopt_states(ensure_dir(folder), "train", kin)
        return folder

    states = ("checkpoint.safetensors", "group_0/before-checkpoint.safetensors", "snapshot-5.safetensors")
    others = ("training.jsonl", "outputs/model/checkpoint.safetensors", "group_0/pruned/model.safetensors", "0.chunk")
    work("a", "kin", *states, *others)
    os.utime(work("b", "kin", *states), (1, 1))
    stranger = work("c", "stranger", *states)
    assert (stranger / states[0]).read_text() == f"c {states[0]}", "it adopts none"
    adopted = work("d", "kin")
    found = {path.relative_to(adopted).as_posix(): path.read_text() for path in files_below(adopted)}
    assert found == {name: f"a {name}" for name in states} | {"kin.json": '"kin"\n'}
    (adopted / states[0]).unlink()
    assert not (work("d", "kin") / states[0]).exists(), "once, at its beginning"
