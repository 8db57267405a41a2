"""Bad images of every kind, as `prepare_data` meets them: one line, and the data prepared before stay as they are."""

import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pickles import Trap
from PIL import Image
from refusals import Bad, check_refused, table
from small_inputs import write_settings
from torchvision.datasets import CIFAR10

from stages import prepare_data

OUTPUTS = ("artifacts/data", "results/metrics/data.json")
HERE = Path("images")
GREY = np.random.default_rng(0).integers(0, 256, (24, 8, 8), dtype=np.uint8)
PNG = b"\x89PNG\r\n\x1a\n"


def settings(source: str, path: str | None, **changes: Any) -> None:
    grey = {"image_size": 8, "channels": 1, "fit": "exact", "holdout": 0.25}
    write_settings(data=grey | {"source": source, "path": path} | changes)


def folder(change: Callable[[], object], **changes: Any) -> Callable[[], None]:
    """A folder of 24 grey images of 8 × 8 pixels, changed."""

    def spoil() -> None:
        HERE.mkdir()
        for number, pixels in enumerate(GREY):
            Image.fromarray(pixels).save(HERE / f"{number:02}.png")
        settings("folder", str(HERE), **changes)
        change()

    return spoil


def file(content: bytes, name: str = "07.png", **changes: Any) -> Callable[[], None]:
    """One of them replaced."""
    return folder(partial((HERE / name).write_bytes, content), **changes)


def split(*names: str) -> None:
    """Move them into folders by turns, two of each pair with one name."""
    for number, path in enumerate(sorted(HERE.iterdir())):
        target = HERE / names[number % len(names)] / f"{number // len(names)}.png"
        target.parent.mkdir(exist_ok=True)
        path.rename(target)


def picture(picture: Image.Image, **changes: Any) -> Callable[[], None]:
    """One of them of another kind."""
    return folder(lambda: picture.save(HERE / "07.png"), **changes)


def array(content: bytes, name: str = "images.npz", **changes: Any) -> Callable[[], None]:
    """A file of arrays."""

    def spoil() -> None:
        Path(name).write_bytes(content)
        settings("array", name, **changes)

    return spoil


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(content: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, content)
    return file.getvalue()


def header(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    """An .npy that promises more than it holds."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def sixteen(colour: int, hole: bytes = b"") -> bytes:
    """A PNG of 8 × 8 pixels of 16 bits, grey (0) or RGB (2), perhaps with a transparent colour."""
    size = struct.pack(">IIBBBBB", 8, 8, 16, colour, 0, 0, 0)
    rows = zlib.compress(bytes(8 * (1 + 16 * (colour + 1))))
    holes = chunk(b"tRNS", hole) if hole else b""
    return PNG + chunk(b"IHDR", size) + holes + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def bomb() -> bytes:
    """A PNG of some bytes that promises 60,000 × 60,000 pixels."""
    size = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    return PNG + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def emptied() -> None:
    for one in HERE.iterdir():
        one.unlink()


def linked(name: str, target: str) -> Callable[[], None]:
    return lambda: (HERE / name).symlink_to(target)


def cifar(batches: Mapping[str, bytes]) -> Callable[[], None]:
    """A folder of CIFAR-10 with these files."""

    def spoil() -> None:
        base = Path(CIFAR10.base_folder)
        base.mkdir()
        for name, content in batches.items():
            (base / name).write_bytes(content)
        settings("cifar10", ".", image_size=32, channels=3)

    return spoil


WHOLE = npz(images=GREY)
PLAIN = (lambda stream: (Image.fromarray(GREY[0]).save(stream, "PNG"), stream.getvalue())[1])(io.BytesIO())
BATCH = pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]})
ALL_BATCHES = [name for name, _ in [*CIFAR10.train_list, *CIFAR10.test_list]]

IMAGES: dict[str, Bad] = {
    "no folder": Bad(lambda: settings("folder", "nowhere"), "data.path: nowhere: missing; allowed: a file or folder"),
    "a file for a folder": Bad(
        lambda: (Path("one").touch(), settings("folder", "one")), "one: not a folder; needed: a folder of images"
    ),
    "two splits": Bad(folder(lambda: split("train", "Test")), "images: Test, train are splits of one data set"),
    "masks in a folder": Bad(folder(lambda: split("images", "masks")), "images: 'masks' holds files named as its"),
    "masks by name": Bad(file(PLAIN, "07_mask.png"), "images/07_mask: a mask of another picture"),
    "classes by case": Bad(folder(lambda: split("cat", "Cat")), "images: classes 'Cat' and 'cat' differ in writing"),
    "classes by accents": Bad(
        folder(lambda: split("caf\u00e9", "cafe\u0301")), "images: classes 'cafe\\u0301' and 'caf\\xe9' differ"
    ),
    "an empty file": Bad(file(b""), "images/07.png: not a readable image (an empty file)"),
    "a pointer": Bad(
        file(b"version https://git-lfs.github.com/spec/v1\noid"), "07.png: not a readable image (a pointer"
    ),
    "a page": Bad(file(b"\n<!DOCTYPE html><html>"), "images/07.png: not a readable image (a page in HTML)"),
    "HDF5": Bad(array(b"\x89HDF\r\n\x1a\n"), "images.npz: not readable (a file of HDF5)"),
    "sixteen bits of colour": Bad(
        file(sixteen(2), convert=False), "images/07.png: 16 bits, where data.convert: false allows 8-bit"
    ),
    "sixteen bits with a hole": Bad(file(sixteen(0, b"\0\0")), "images/07.png: 16 bits with one transparent colour"),
    "an empty folder": Bad(folder(emptied), "images: no images in it"),
    "text": Bad(file(b"I am a picture"), "images/07.png: not a readable image"),
    "a pickle": Bad(file(pickle.dumps(Trap())), "images/07.png: not a readable image"),
    "a bomb": Bad(file(bomb()), "images/07.png: not a readable image"),
    "HEIF": Bad(file(b"\0\0\0\x18ftypheic\0\0\0\0", "99"), "images/99: a picture of a format that is not read (HEIF"),
    "colour": Bad(picture(Image.new("RGB", (8, 8), "red"), convert=False), "images/07.png: RGB, where data.channels:"),
    "grey": Bad(folder(lambda: None, channels=3, convert=False), "24 of 24 images cannot be used: images/00.png"),
    "sixteen bits": Bad(
        picture(Image.new("I;16", (8, 8)), convert=False), "images/07.png: 16 bits, where data.convert"
    ),
    "32 bits": Bad(folder(lambda: Image.new("F", (8, 8)).save(HERE / "99.tif")), "images/99.tif: pixels of mode F"),
    "another size": Bad(picture(Image.new("L", (8, 9))), "images/07.png: 8 × 9 pixels, where data.image_size is 8"),
    "a link to nowhere": Bad(folder(linked("99.png", "nowhere")), "images/99.png: a link that leads nowhere"),
    "a loop": Bad(folder(linked("again", ".")), "images/again: the same folder as images"),
    "a name of two lines": Bad(file(b"none", "a\nb.png"), "images/a b.png: not a readable image"),
    "a name that clears the screen": Bad(file(b"none", "\x1b[2J.png"), "images/\\x1b[2J.png: not a readable image"),
    "a folder for arrays": Bad(lambda: (HERE.mkdir(), settings("array", str(HERE))), "images: not readable"),
    "an archive cut short": Bad(array(WHOLE[:-40]), "images.npz: not readable"),
    "an altered archive": Bad(array(WHOLE.replace(GREY.tobytes()[:64], bytes(64))), "images.npz: not readable"),
    "an empty archive": Bad(array(zipped()), "images.npz: holds no images"),
    "other names": Bad(array(npz(a=GREY, b=GREY)), "images.npz: holds a, b; name the array of images 'images'"),
    "pickled objects": Bad(array(npz(images=np.array([Trap()] * 24, object))), "without pickled objects"),
    "a pickle of arrays": Bad(array(pickle.dumps(Trap())), "without pickled objects"),
    "an array cut short": Bad(array(npy(GREY)[:-1], "images.npy"), "images.npy: not readable"),
    "a promise of exabytes": Bad(array(header((2**40, 1024, 1024)), "images.npy"), "images.npy: not readable"),
    "floats": Bad(array(npz(images=GREY / 255)), "images.npz: values of type float64; allowed: uint8, 0 to 255"),
    "films": Bad(array(npz(images=GREY[None, :, None])), "images.npz: shape (1, 24, 1, 8, 8); data.channels"),
    "no image": Bad(array(npz(images=GREY[:0])), "images.npz: no images in it, its shape is (0, 8, 8)"),
    "other pixels": Bad(array(npz(images=GREY[:, :, :7])), "images.npz: 7 × 8 pixels, where data.image_size is 8"),
    "fewer labels": Bad(array(npz(images=GREY, labels=np.arange(23))), "labels of type int64 and shape (23,); allowed"),
    "labels in words": Bad(array(npz(images=GREY, labels=np.array(["cat"] * 24))), "labels of type <U3"),
    "labels twice": Bad(
        array(npz(images=GREY, label=np.zeros(24, int), labels=np.zeros(24, int))),
        "images.npz: holds 'labels' and 'label'; one array of labels is allowed",
    ),
    "a label below zero": Bad(array(npz(images=GREY, labels=np.full(24, -1))), "images.npz: label -1; allowed: 0 …"),
    "a label of billions": Bad(array(npz(images=GREY, labels=np.full(24, 10**9))), "label 1000000000; allowed: 0 …"),
    "CIFAR-10 without files": Bad(cifar({}), f"{CIFAR10.base_folder}: files missing or damaged; delete the folder"),
    "CIFAR-10 cut short": Bad(
        cifar(dict.fromkeys(ALL_BATCHES, BATCH[:9])), f"{CIFAR10.base_folder}: files missing or damaged"
    ),
    "CIFAR-10 with a program": Bad(
        cifar(dict.fromkeys(ALL_BATCHES, pickle.dumps(Trap()))), f"{CIFAR10.base_folder}: files missing or damaged"
    ),
}


@pytest.fixture(autouse=True)
def _place(project):
    """A working directory."""


@table(IMAGES)
def test_bad_images_are_refused_and_the_data_of_before_stay(bad):
    bad.spoil()
    check_refused(prepare_data, said=bad.said, outputs=OUTPUTS)
    assert not Path("unpickled").exists()
