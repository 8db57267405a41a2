"""Work directories: what is deleted of what was given up."""

import os
from pathlib import Path

from unequal.pipeline.workdirs import NOTE, STATES_STORED, clear_old_states, lock_of, try_lock


def state(root: Path, instance: str, number: int) -> Path:
    """A work directory, the older the smaller its number."""
    work = root / f"{instance}-{number:012x}"
    work.mkdir(parents=True)
    (work / "checkpoint").touch()
    os.utime(work, (number, number))
    return work


def test_of_the_states_of_a_stage_instance_the_latest_are_kept(tmp_path: Path) -> None:
    states = [state(tmp_path, "train_base", number) for number in range(STATES_STORED + 5)]
    others = [state(tmp_path, name, 0) for name in ("train", "train_base-x", "a_train_base")]
    own, finished, at_work = states[:3]
    (finished / NOTE).touch()
    os.utime(finished, (1, 1))
    with try_lock(at_work):
        clear_old_states(own, "train_base")
        assert {path for path in tmp_path.iterdir() if path.is_dir()} == {
            *states[:3],
            *states[-STATES_STORED:],
            *others,
        }
    clear_old_states(own, "train_base")
    assert not at_work.exists()
    assert not Path(lock_of(at_work).lock_file).exists()
