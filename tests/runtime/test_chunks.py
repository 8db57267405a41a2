import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unequal.runtime.chunks import Chunks, Maker
from unequal.runtime.devices import CHUNKS, computed_on, ranges
from unequal.runtime.processes import FOLDER


def refuse() -> np.ndarray:
    raise AssertionError("made again")


def test_a_chunk_is_made_once(tmp_path):
    made = np.arange(6.0).reshape(2, 3)
    Chunks(tmp_path).get("one", Maker((2, 3), lambda: made))
    assert (Chunks(tmp_path).get("one", Maker((2, 3), refuse)) == made).all()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def replace_by_another(path: Path) -> None:
    Chunks(path.parent).get("other", filled(100, 2))
    shutil.copyfile(path.with_name("other.chunk"), path)


def replace_by_another_shape(path: Path) -> None:
    path.unlink()
    Chunks(path.parent).get("one", filled(99, 2))


def filled(count: int, value: int) -> Maker:
    return Maker((count,), lambda: np.full(count, value))


@pytest.mark.parametrize("spoil", [cut_short, flip_a_bit, replace_by_another, replace_by_another_shape])
def test_a_spoiled_chunk_is_made_again(tmp_path, spoil):
    Chunks(tmp_path).get("one", filled(100, 0))
    spoil(tmp_path / "one.chunk")
    assert (Chunks(tmp_path).get("one", filled(100, 1)) == 1).all()
    assert (Chunks(tmp_path).get("one", Maker((100,), refuse)) == 1).all()


def test_what_stops_the_making_leaves_nothing_behind(tmp_path):
    with pytest.raises(AssertionError):
        Chunks(tmp_path).get("one", Maker((1,), refuse))
    assert not list(tmp_path.iterdir())


def test_chunks_below_are_apart(tmp_path):
    Chunks(tmp_path).below("a").get("one", filled(1, 0))
    assert Chunks(tmp_path).below("b").get("one", filled(1, 1)) == 1


def test_without_a_folder_nothing_is_kept():
    unkept = Chunks().below("any")
    assert unkept.get("one", filled(1, 0)) == 0
    assert unkept.get("one", filled(1, 1)) == 1


def counting(made: list[int], number: int) -> Maker:
    return Maker((2,), lambda: (made.append(number), np.full(2, number))[1])


@pytest.mark.parametrize("kept", [True, False])
def test_chunks_are_handed_out_one_at_a_time(tmp_path, kept):
    made: list[int] = []
    found = Chunks(tmp_path if kept else None).each({f"{n}": counting(made, n) for n in range(3)})
    for number in range(3):
        assert next(found).tolist() == [number, number]
        assert made == list(range(number + 1))


def test_a_process_makes_its_part_and_reads_all(tmp_path, monkeypatch):
    made: list[int] = []
    makers = {f"{n}": counting(made, n) for n in range(5)}
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for rank, own in ((1, [1, 3]), (0, [1, 3, 0, 2, 4])):
        monkeypatch.setenv("RANK", str(rank))
        Chunks(tmp_path).make(makers)
        assert made == own
    assert [one[0] for one in Chunks(tmp_path).each(makers)] == [0, 1, 2, 3, 4]
    assert len(made) == 5


@given(st.integers(1, 10_000), st.integers(1, 700))
def test_ranges_cover_all_in_whole_multiples(total, multiple):
    found = list(ranges(total, multiple))
    assert [i for one in found for i in one] == list(range(total))
    assert len(found) <= CHUNKS
    assert all(len(one) % multiple == 0 for one in found[:-1])


def test_a_processor_computes_float32_in_full():
    assert computed_on(torch.device("cpu")) == {"device": "cpu", "fp32": "ieee"}


@pytest.mark.parametrize(
    ("capability", "convolutions", "products", "said"),
    [
        ((9, 0), True, False, "convolutions tf32, products ieee"),
        ((8, 0), False, True, "convolutions ieee, products tf32"),
        ((7, 5), True, True, "convolutions ieee, products ieee"),
    ],
)
def test_a_gpu_is_reported_with_its_precision_of_float32(capability, convolutions, products, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = convolutions, products
        assert computed_on(torch.device("cuda", 0)) == {"device": "a GPU", "fp32": said}
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
