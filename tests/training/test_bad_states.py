"""Bad states in `work/`: a training takes up the one before, or refuses both in one line, and deletes neither."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from refusals import check_refused, in_process
from safetensors.torch import save

from stages import train_base
from unequal.runtime.tensor_files import Saved, read_saved
from unequal.training import loop
from unequal.training.checkpoint import previous_path, write_checkpoint
from unequal.training.loop import CHECKPOINT

OUTPUTS = ("results/metrics/train_base.json", "results/training/base.csv")
Spoil = Callable[[Path], object]


class Halted(Exception):
    """In the place of what ends a training half-way."""


@pytest.fixture(scope="module")
def stopped(module_project, inputs_made_once):
    """A folder in which a training was stopped at its third step of four; a state was saved after each."""
    train_step = loop.Trainer.train_step

    def halting(trainer: loop.Trainer) -> dict[str, torch.Tensor]:
        if trainer.step == 3:
            raise Halted
        return train_step(trainer)

    shutil.copytree(inputs_made_once, module_project, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Trainer, "train_step", halting)
        with pytest.raises(Halted):
            in_process(train_base)
    return module_project


@pytest.fixture
def state(project, stopped):
    shutil.copytree(stopped, project, dirs_exist_ok=True)
    (path,) = Path("work").glob(f"train_base-*/{CHECKPOINT}")
    return path


def content(value: bytes) -> Spoil:
    return lambda path: path.write_bytes(value)


def cut(kept: int) -> Spoil:
    return lambda path: path.write_bytes(path.read_bytes()[:kept])


def flipped(place: int) -> Spoil:
    def spoil(path: Path) -> None:
        found = bytearray(path.read_bytes())
        found[place] ^= 1
        path.write_bytes(found)

    return spoil


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


#: How to spoil a state → what is said of it where the one before is spoiled alike.
DAMAGED: dict[str, tuple[Spoil, str]] = {
    "nothing": (content(b""), "cut short or altered"),
    "a program": (content(b"\x80\x04cposix\nsystem\n"), "cut short or altered"),
    "a promise of exabytes": (content((2**60).to_bytes(8, "little") + b"{}"), "cut short or altered"),
    "cut in the tensors": (cut(20_000), "cut short or altered"),
    "a bit of a tensor": (flipped(-1), "altered since it was saved"),
    "tensors without a word": (content(save({"net.x": torch.zeros(3)})), "altered since it was saved"),
    "a folder": (folder, "cut short or altered"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_of_two_bad_states_none_is_taken_up(state, damage):
    spoil, said = DAMAGED[damage]
    for path in (state, previous_path(state)):
        spoil(path)
    check_refused(train_base, said=said, outputs=OUTPUTS)
    assert all(path.exists() for path in (state, previous_path(state))), "they are the user's to delete"


@pytest.mark.parametrize("damage", ["a program", "a bit of a tensor"])
def test_the_state_before_a_bad_one_is_taken_up(state, damage, monkeypatch):
    DAMAGED[damage][0](state)
    steps: list[int] = []
    train_step = loop.Trainer.train_step
    monkeypatch.setattr(loop.Trainer, "train_step", lambda self: (steps.append(self.step), train_step(self))[1])
    assert in_process(train_base) == (0, "")
    assert steps == [2, 3]


def others(state: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    for path in (state, previous_path(state)):
        saved = read_saved(path)
        write_checkpoint(path, Saved(change(saved.tensors), saved.facts))


WEIGHT = "net.conv_in.weight"
STRANGE: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]] = {
    "a weight too few": lambda tensors: {name: value for name, value in tensors.items() if name != WEIGHT},
    "a weight too many": lambda tensors: tensors | {"net.more.weight": torch.zeros(7, 7)},
    "another shape": lambda tensors: tensors | {WEIGHT: torch.zeros(7, 7)},
}


@pytest.mark.parametrize("strange", STRANGE)
def test_a_state_of_another_network_is_refused(state, strange):
    others(state, STRANGE[strange])
    said = f"{state.absolute()}: a state of another network; delete it to start again"
    check_refused(train_base, said=said, outputs=OUTPUTS)
