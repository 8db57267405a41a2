from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unequal.workspace import CHUNKS, Chunks, computed_on, ranges


def refuse() -> np.ndarray:
    raise AssertionError("made again")


def test_a_chunk_is_made_once(tmp_path: Path):
    made = np.arange(6.0).reshape(2, 3)
    Chunks(tmp_path).get("one", lambda: made)
    assert (Chunks(tmp_path).get("one", refuse) == made).all()


def test_a_chunk_cut_short_is_made_again(tmp_path: Path):
    Chunks(tmp_path).get("one", lambda: np.arange(100))
    path = tmp_path / "one.npy"
    path.write_bytes(path.read_bytes()[:150])
    assert (Chunks(tmp_path).get("one", lambda: np.ones(3)) == 1).all()
    assert (Chunks(tmp_path).get("one", refuse) == 1).all()


def test_what_stops_the_making_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(AssertionError):
        Chunks(tmp_path).get("one", refuse)
    assert not list(tmp_path.iterdir())


def test_chunks_below_are_apart(tmp_path: Path):
    Chunks(tmp_path).below("a").get("one", lambda: np.zeros(1))
    assert Chunks(tmp_path).below("b").get("one", lambda: np.ones(1)) == 1


def test_without_a_folder_nothing_is_kept():
    unkept = Chunks().below("any")
    assert unkept.get("one", lambda: np.zeros(1)) == 0
    assert unkept.get("one", lambda: np.ones(1)) == 1


def counting(made: list[int], number: int) -> np.ndarray:
    made.append(number)
    return np.full(2, number)


@pytest.mark.parametrize("kept", [True, False])
def test_chunks_are_handed_out_one_at_a_time(tmp_path: Path, kept: bool):
    made: list[int] = []
    found = Chunks(tmp_path if kept else None).each({f"{n}": partial(counting, made, n) for n in range(3)})
    for number in range(3):
        assert next(found).tolist() == [number, number]
        assert made == list(range(number + 1))


def test_a_process_makes_its_part_and_reads_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    makers = {f"{n}": partial(counting, made, n) for n in range(5)}
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, own in ((1, [1, 3]), (0, [1, 3, 0, 2, 4])):
        monkeypatch.setenv("RANK", str(rank))
        Chunks(tmp_path).make(makers)
        assert made == own
    assert [one[0] for one in Chunks(tmp_path).each(makers)] == [0, 1, 2, 3, 4]
    assert len(made) == 5


@given(st.integers(1, 10_000), st.integers(1, 700))
def test_ranges_cover_all_in_whole_multiples(total: int, multiple: int):
    found = list(ranges(total, multiple))
    assert [i for one in found for i in one] == list(range(total))
    assert len(found) <= CHUNKS
    assert all(len(one) % multiple == 0 for one in found[:-1])


def test_a_processor_computes_float32_in_full() -> None:
    assert computed_on(torch.device("cpu")) == {"device": "cpu", "fp32": "ieee"}


@pytest.mark.parametrize(
    ("capability", "convolutions", "products", "said"),
    [
        ((9, 0), True, False, "convolutions tf32, products ieee"),
        ((8, 0), False, True, "convolutions ieee, products tf32"),
        ((7, 5), True, True, "convolutions ieee, products ieee"),
    ],
)
def test_a_gpu_is_told_with_what_it_takes_for_float32(
    capability: tuple[int, int], convolutions: bool, products: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = convolutions, products
        assert computed_on(torch.device("cuda", 0)) == {"device": "a GPU", "fp32": said}
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
