"""Data as people have them, each a small file in its true format, and what they are read as."""

import io
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from unequal.data import folders, sources
from unequal.data.preparation import prepare
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.settings.data import Data

GENERATOR = np.random.default_rng(0)
RGB = GENERATOR.integers(0, 256, (8, 8, 3), dtype=np.uint8)
GREY = RGB[:, :, 0]
RED = np.array([255, 0, 0], np.uint8)
DEEP = GENERATOR.integers(0, 65536, (8, 8), dtype=np.uint16)
#: ITU-R 601, in Pillow's integers.
LUMA = ((RGB.astype(int) @ [19595, 38470, 7471] + 0x8000) >> 16).astype(np.uint8)
PHOTO, PLAIN = Image.fromarray(RGB), Image.fromarray(GREY)
BLACK = Image.new("RGB", (8, 8))


def saved(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, kind, **options)
    return content.getvalue()


def with_alpha(picture: Image.Image, alpha: int) -> Image.Image:
    """A picture whose upper half is opaque, and whose lower half has this alpha."""
    picture = picture.copy()
    mask = Image.new("L", (8, 8), 255)
    mask.paste(alpha, (0, 4, 8, 8))
    picture.putalpha(mask)
    return picture


def lower(colour: Any) -> np.ndarray:
    """RGB with a lower half of one colour."""
    pixels = RGB.copy()
    pixels[4:] = colour
    return pixels


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(PHOTO, exif=exif)


def with_text(length: int) -> bytes:
    """A PNG with a compressed text, as generators of pictures write their settings."""
    info = PngInfo()
    info.add(b"zTXt", b"prompt\0\0" + zlib.compress(b"a" * length))
    return saved(PHOTO, pnginfo=info)


def see_through_palette() -> bytes:
    """A palette of black and white, of which white is transparent."""
    picture = Image.new("P", (8, 8))
    picture.putpalette([0, 0, 0, 255, 255, 255])
    picture.paste(1, (0, 4, 8, 8))
    return saved(picture, transparency=1)


class Picture(NamedTuple):
    """A file's name and content, the right pixels, what is lost, and the settings."""

    name: str
    content: bytes
    right: np.ndarray
    lost: tuple[str, ...] = ()
    settings: Mapping[str, Any] = MappingProxyType({})


GREYED = {"channels": 1}
PICTURES = {
    **{f"named {name}": Picture(name, saved(PHOTO), RGB) for name in (
        "a.PNG", "a.jpg_large", "a", "a.gif", "é — ü.png", "#1?x=%20&y.png", "a.txt",
    )},
    "a TGA": Picture("a.tga", saved(PHOTO, "TGA"), RGB),
    "a BMP without an ending": Picture("a", saved(PHOTO, "BMP"), RGB),
    "a PGM in a PNM": Picture("a.pnm", saved(PLAIN, "PPM"), GREY, settings=GREYED),
    "a PBM": Picture("a.pbm", saved(PLAIN.point(lambda v: 255 * (v > 127), "1"), "PPM"), GREY // 128 * 255, (), GREYED),
    "a PGM in letters": Picture("a", b"P2 8 8 255\n" + b" ".join(b"%d" % v for v in GREY.flat), GREY, (), GREYED),
    "a TIFF of pages": Picture("a", saved(PHOTO, "TIFF", save_all=True, append_images=[BLACK]), RGB),
    "an animated PNG": Picture("a.apng", saved(PHOTO, save_all=True, append_images=[BLACK]), RGB),
    "an animated GIF": Picture(
        "a.gif", saved(PLAIN, "GIF", save_all=True, append_images=[BLACK]), GREY, (), GREYED
    ),
    "an animated WebP": Picture(
        "a", saved(PHOTO, "WEBP", lossless=True, save_all=True, append_images=[BLACK]), RGB
    ),
    "a JPEG 2000": Picture("a.jp2", saved(PHOTO, "JPEG2000"), RGB),
    "grey among colour": Picture("a.png", saved(PLAIN), np.stack([GREY] * 3, -1), ("grey",)),
    "colour among grey": Picture("a.png", saved(PHOTO), LUMA, ("RGB",), GREYED),
    "a palette": Picture("a.png", saved(PLAIN.convert("P")), np.stack([GREY] * 3, -1)),
    "a palette of greys": Picture("a.png", saved(PLAIN.convert("P")), GREY, (), GREYED),
    "a palette of colours among grey": Picture(
        "a.png", saved(Image.new("RGB", (8, 8), (255, 0, 0)).quantize(2)), np.full((8, 8), 76, np.uint8), ("RGB",),
        GREYED,
    ),
    "CMYK": Picture(
        "a.tif", saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "TIFF"), np.full((8, 8, 3), RED),
        ("CMYK",),
    ),
    "16 bits": Picture("a.png", saved(Image.fromarray(DEEP)), DEEP >> 8, ("16 bits",), GREYED),
    "16 bits, big end first": Picture(
        "a.tif", saved(Image.fromarray(DEEP.astype(">u2")), "TIFF"), DEEP >> 8, ("16 bits",), GREYED
    ),
    "a PGM of 16 bits": Picture(
        "a.pgm", b"P5 8 8 65535\n" + DEEP.astype(">u2").tobytes(), DEEP >> 8, ("16 bits",), GREYED
    ),
    "16 bits among colour": Picture(
        "a.png", saved(Image.fromarray(DEEP)), np.stack([DEEP >> 8] * 3, -1), ("16 bits", "grey")
    ),
    "opaque alpha": Picture("a.png", saved(with_alpha(PHOTO, 255)), RGB),
    "transparent": Picture("a.png", saved(with_alpha(PHOTO, 0)), lower(255), ("transparent",)),
    "transparent on green": Picture(
        "a.png", saved(with_alpha(PHOTO, 0)), lower((0, 128, 0)), ("transparent",), {"background": (0, 128, 0)}
    ),
    "half transparent": Picture(
        "a.png", saved(with_alpha(BLACK, 51)), np.repeat([0, 204], 4)[:, None, None] + np.zeros((8, 8, 3), int),
        ("transparent",),
    ),
    "transparent grey": Picture(
        "a.png", saved(with_alpha(PLAIN, 0)), np.vstack([GREY[:4], np.full((4, 8), 9)]), ("transparent",),
        GREYED | {"background": (9, 9, 9)},
    ),
    "a transparent colour": Picture(
        "a.png", saved(Image.fromarray(lower((1, 2, 3))), transparency=(1, 2, 3)), lower(255), ("transparent",)
    ),
    "a transparent entry of a palette": Picture(
        "a.png", see_through_palette(), np.repeat([0, 7], 4)[:, None, None] + np.zeros((8, 8, 3), int),
        ("transparent",),
        {"background": (7, 7, 7)},
    ),
    "upside down by EXIF": Picture("a.png", turned(3), RGB[::-1, ::-1]),
    "turned and mirrored by EXIF": Picture("a.png", turned(5), RGB.transpose(1, 0, 2)),
    "an orientation that is none": Picture("a.png", turned(99), RGB),
    "damaged EXIF": Picture("a.png", saved(PHOTO, exif=b"Exif\0\0MM\0*\0\0\0\xff\xff"), RGB),
    "2 MiB of text": Picture("a.png", with_text(2 * 2**20), RGB),
}  # fmt: skip


def settings(path: Path, **changes: Any) -> Data:
    default = {"source": "folder", "image_size": 8, "channels": 3, "fit": "exact", "holdout": 0.25}
    return Data(**default | {"path": str(path)} | changes)


@pytest.mark.parametrize("case", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_read_as_it_is_meant(tmp_path, case):
    (tmp_path / case.name).write_bytes(case.content)
    images = sources.open_source(settings(tmp_path, **case.settings))
    found = images[0]
    assert np.array_equal(found, case.right[None] if case.right.ndim == 2 else case.right.transpose(2, 0, 1))
    assert sorted(images.converted) == sorted(case.lost)
    if case.lost:
        with pytest.raises(UserError, match=r"set data\.convert: true"):
            sources.open_source(settings(tmp_path, convert=False, **case.settings))[0]


def test_a_cmyk_jpeg_is_read_as_its_colour(tmp_path):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=95)
    found = sources.open_source(settings(tmp_path))[0].astype(int)
    assert np.abs(found - RED[:, None, None]).max() < 8


def test_a_text_of_a_png_is_read_up_to_a_bound(tmp_path):
    (tmp_path / "a.png").write_bytes(with_text(80 * 2**20))
    with pytest.raises(UserError, match=r"a\.png: not a readable image \(Decompressed data too large"):
        sources.open_source(settings(tmp_path))[0]


class Folder(NamedTuple):
    """Paths of pictures and of other files; the classes, the label of each picture, and what is left out."""

    pictures: list[str]
    others: list[str]
    classes: list[str] | None
    labels: list[int]
    note: str = ""
    left_out: int = 0


FLAT = "no labels: the images of {} lie in no subfolders"
FOLDERS = {
    "names": Folder(["b/1", "a/1"], [], ["a", "b"], [0, 1]),
    "numbers": Folder([f"{n}/1" for n in range(12)], [], [str(n) for n in range(12)], [0, 1, 10, 11, *range(2, 10)]),
    "numbers from 1, with gaps": Folder(["1/1", "10/1", "3/1"], [], ["1", "3", "10"], [0, 2, 1]),
    "numbers with zeros before": Folder(["007/1", "10/1", "08/1"], [], ["007", "08", "10"], [0, 1, 2]),
    "numbers and names": Folder(["10/1", "9/1", "x/1"], [], ["10", "9", "x"], [0, 1, 2]),
    "one class": Folder(["a/1", "a/2"], [], ["a"], [0, 0]),
    "flat": Folder(["1", "2"], [], None, [], FLAT),
    "thumbnails of a NAS": Folder(
        ["a/1", "b/1"], ["a/@eaDir/1/SYNOPHOTO_THUMB.png", "@eaDir/x.png"], ["a", "b"], [0, 1],
        "left out 2 folders of other programs (@eaDir)",
    ),
    "other programs' folders": Folder(
        ["a/1", "b/1"],
        ["__MACOSX/a/1.png", "lost+found/x.png", "$RECYCLE.BIN/S-1/1.png", "#recycle/1.png", "Thumbnails/1.png",
         "System Volume Information/x.png", ".Trash-1000/1.png", ".thumbnails/1.png", "a/.ipynb_checkpoints/1.png"],
        ["a", "b"], [0, 1],
        "left out 6 folders of other programs (#recycle, $RECYCLE.BIN, System Volume Information, …)",
    ),
    "hidden files": Folder(["a/1", "b/1"], ["a/._1.png", ".DS_Store"], ["a", "b"], [0, 1]),
    "notes": Folder(
        ["a/1", "b/1"], ["readme.md", "a/Thumbs.db", "LICENSE"], ["a", "b"], [0, 1],
        "left out 3 files without a picture (1 without an ending, 1 .db, 1 .md, first LICENSE)", 3,
    ),
    "captions": Folder(
        ["a/1", "b/2"], ["a/1.txt", "b/2.txt", "b/2.json", "metadata.jsonl"], ["a", "b"], [0, 1],
        "left out 4 captions (1.txt, 2.json, 2.txt, …)",
    ),
    "unfinished downloads": Folder(
        ["a/1.png", "b/1.png"], ["a/9.png~", "b/2.jpg.part"], ["a", "b"], [0, 1],
        "left out 2 files without a picture (1 .png~, 1 .part, first 9.png~)", 2,
    ),
    "a stray picture in the root": Folder(
        ["a/1", "b/1", "contact sheet"], [], ["a", "b"], [0, 1],
        "left out 1 image next to the classes' folders (contact sheet)", 1,
    ),
    "a class without an image": Folder(
        ["a/1", "b/1"], ["dog/.gitkeep"], ["a", "b"], [0, 1], "no class of 1 subfolder without an image (dog)"
    ),
    "as many in the root": Folder(
        ["a/1", "b/1", "1", "2"], [], None, [], "no labels: {} holds 2 images (1, 2) next to 2 subfolders"
    ),
    "deeper": Folder(["a/1", "b/x/1"], [], None, [], "no labels: {}/b/x/1 lies 2 folders deep, where classes lie one"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDERS.values(), ids=FOLDERS)
def test_folders_are_classes_where_they_are_meant_so(tmp_path, case):
    for name in (*case.pictures, *case.others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(saved(PHOTO) if name in case.pictures or name.endswith(".png") else b"no picture")
    source = sources.open_source(settings(tmp_path))
    assert (source.classes, source.left_out) == (case.classes, case.left_out)
    assert (source.labels.tolist() if source.labels is not None else []) == list(case.labels)
    assert source.notes == ((case.note.format(tmp_path),) if case.note else ())


class Labels(NamedTuple):
    """Arrays beside the images; the classes, and the label of each of 4 images."""

    arrays: dict[str, Any]
    classes: list[str] | None
    labels: Sequence[int] = ()
    notes: tuple[str, ...] = ()


ARRAYS = {
    "from 0": Labels({"labels": [0, 1, 2, 0]}, ["0", "1", "2"], [0, 1, 2, 0]),
    "from 1": Labels({"labels": [1, 2, 3, 1]}, ["1", "2", "3"], [0, 1, 2, 0]),
    "with gaps": Labels({"labels": [7, 100, 7, 20]}, ["7", "20", "100"], [0, 2, 0, 1]),
    "in a column": Labels({"labels": [[3], [4], [3], [4]]}, ["3", "4"], [0, 1, 0, 1]),
    **{f"named {name}": Labels({name: [1, 0, 1, 0]}, ["0", "1"], [1, 0, 1, 0]) for name in ("label", "y", "targets")},
    "named otherwise": Labels(
        {"species": [1, 0, 1, 0]}, None, notes=("left out of {}: species; labels have the name 'labels'",)
    ),
}


@pytest.mark.parametrize("case", ARRAYS.values(), ids=ARRAYS)
def test_classes_of_an_array_are_those_that_occur(tmp_path, case):
    path = tmp_path / "a.npz"
    np.savez(path, images=np.stack([RGB] * 4), **case.arrays)
    source = sources.open_source(settings(path, source="array"))
    assert source.classes == case.classes and source.notes == tuple(note.format(path) for note in case.notes)
    assert (source.labels.tolist() if source.labels is not None else []) == list(case.labels)


def test_a_name_that_is_no_utf_8_is_a_file_and_a_class_like_others(tmp_path):
    images = tmp_path / "images"
    for number in range(12):
        folder = os.fsencode(images) + (b"/caf\xe9" if number % 2 else b"/tea")
        os.makedirs(folder, exist_ok=True)
        with open(folder + b"/\xff%d.png" % number, "wb") as file:
            file.write(saved(Image.new("RGB", (8, 8), (number, 0, 0))))
    facts = prepare(settings(images), 0, tmp_path / "data")
    data = PreparedData.open(tmp_path / "data")
    assert facts["labels"] == 2 and data.facts["classes"] == [r"caf\xe9", "tea"]
    assert data.labels is not None and data.labels.tolist() == [1 - red % 2 for red in data.images[:, 0, 0, 0].tolist()]


def numbered(count: int, value: Callable[[int], int]) -> np.ndarray:
    """Grey images, the i-th full of a value."""
    return np.stack([np.full((8, 8), value(number), np.uint8) for number in range(count)])


@pytest.mark.parametrize(
    ("value", "train", "holdout"),
    [(lambda i: i, 0, 0), (lambda i: i // 2, 15, 5), (lambda i: max(i - 9, 0), None, None)],
    ids=["no copies", "pairs", "ten equal ones"],
)
def test_equal_images_stand_on_one_side_of_the_split(tmp_path, value, train, holdout):
    labels = np.arange(40) % 7
    np.savez(tmp_path / "a.npz", images=numbered(40, value), labels=labels)
    facts = prepare(settings(tmp_path / "a.npz", source="array", channels=1), 0, tmp_path / "data")
    data = PreparedData.open(tmp_path / "data")
    pixels = [part[:, 0, 0, 0].tolist() for part in (data.train, data.holdout)]
    assert [len(part) for part in pixels] == [30, 10] and not set(pixels[0]) & set(pixels[1])
    copies = [len(part) - len(set(part)) for part in pixels]
    both = list(chain(*pixels))
    assert facts["copies"] == {"train": copies[0], "holdout": copies[1]} and sum(copies) == 40 - len(set(both))
    assert train is None or copies == [train, holdout]
    found = sorted(zip(both, data.labels.tolist(), strict=True))
    assert found == sorted((value(number), int(label)) for number, label in enumerate(labels))


def test_nothing_but_copies_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", numbered(40, lambda i: i // 20))
    with pytest.raises(UserError, match=r"data: 40 images are copies of 2, one of them 20 times; .* so 0 of 10 can be"):
        prepare(settings(tmp_path / "a.npy", source="array", channels=1), 0, tmp_path / "data")
    assert not (tmp_path / "data/facts.json").exists()


def test_what_a_set_holds_is_said_before_it_is_decoded_and_what_became_of_it_after(tmp_path, capsys, monkeypatch):
    images = tmp_path / "images"
    images.mkdir()
    for number in range(10):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(images / f"{number}.png")
    Image.new("L", (8, 8), 99).save(images / "grey.png")
    with_alpha(PHOTO, 0).save(images / "icon.png")
    (images / "notes.odt").touch()
    facts = prepare(settings(images), 0, tmp_path / "data")
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("data: ")] == [
        "data: left out 1 file without a picture (1 .odt, first notes.odt)",
        f"data: {FLAT.format(images)}",
        "data: 12 images: 10 RGB, 1 L, 1 RGBA",
        "data: converted to 8-bit RGB: 1 grey, 1 transparent; data.convert: false refuses them",
    ]
    assert facts["converted"] == {"grey": 1, "transparent": 1} and facts["left_out"] == 1

    def fails(*_: object) -> None:
        pytest.fail("an image is decoded")

    monkeypatch.setattr(folders, "decode", fails)
    with pytest.raises(
        UserError, match=r"images/grey\.png: grey, where data\.channels: 3 and convert: false allow RGB"
    ):
        prepare(settings(images, convert=False), 0, tmp_path / "again")
