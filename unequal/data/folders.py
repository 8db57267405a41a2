"""Folders of pictures as people have them: which files are pictures, which subfolders are classes, what is left out.

`Folder` is their source. What is no data set for training is refused: several splits next to each other, and masks
next to their pictures.
"""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from unequal.data.decoding import decoded
from unequal.data.pictures import (
    channels_first,
    check_head,
    decode,
    fitted,
    in_channels,
    is_picture,
    readable,
)
from unequal.data.source import Source, refusal_of
from unequal.errors import UserError, plain
from unequal.runtime.files import files_below, is_foreign
from unequal.settings.data import Data

#: How many names a message shows.
SHOWN = 3
#: Lists of captions or labels.
METADATA = ("metadata.jsonl", "metadata.csv")
#: Endings of files that another program has set aside, or not finished.
UNFINISHED = ("~", ".bak", ".orig", ".tmp", ".part", ".partial", ".crdownload")
#: Names of folders that are parts of one data set, not classes.
SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"))
#: Names of folders and ends of files' names that hold masks of pictures.
MASKS = frozenset(("mask", "masks", "segmentation", "segmentations", "annotation", "annotations", "labels", "gt"))
MASK_ENDS = ("_mask", "-mask", "_seg", "_segmentation", "_gt")


@dataclass(frozen=True)
class PictureFolder:
    """Pictures of a folder, at any depth.

    Attributes:
        files: in the order of their paths.
        left_out: files that are no pictures, and none's companion: a caption has its name, a list is METADATA.
        foreign: folders of other programs, which are not looked into.
        companions: captions and lists, which are not read.
    """

    folder: Path
    files: list[Path]
    left_out: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)
    companions: list[Path] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """List a folder. Links are followed; hidden files, and hidden folders, count as absent.

        Raises:
            UserError: no folder; no picture in it; a file that is reached twice; a picture of a format without a
                decoder.
            OSError: something in it cannot be read.
        """
        if not folder.is_dir():
            what = "not a folder" if folder.exists() else "missing"
            raise UserError(f"{folder}: {what}; needed: a folder of images")
        foreign, pictures, others = list[Path](), list[Path](), list[Path]()
        for file in files_below(folder, foreign):
            unfinished = file.name.lower().endswith(UNFINISHED)
            (pictures if not unfinished and is_picture(file) else others).append(file)
        foreign = [path for path in foreign if not path.name.startswith(".")]
        names = {file.with_suffix("") for file in pictures}
        companions = [file for file in others if file.with_suffix("") in names or file.name in METADATA]
        left = set(others) - set(companions)
        others = [file for file in others if file in left]
        listed = cls(folder, pictures, others, foreign, companions)
        if not pictures:
            raise UserError(f"{folder}: no images in it{listed.notes(': ')}")
        refuse_linked_twice(pictures)
        refuse_splits(folder, pictures)
        refuse_masks(folder, pictures)
        return listed

    def notes(self, before: str = "") -> str:
        """Count what is left out, and name the first; empty where there is nothing."""
        parts = []
        if self.left_out:
            parts.append(f"{counted(len(self.left_out), 'file')} without a picture ({endings_of(self.left_out)})")
        if self.foreign:
            parts.append(f"{counted(len(self.foreign), 'folder')} of other programs ({first_names(self.foreign)})")
        if self.companions:
            parts.append(f"{counted(len(self.companions), 'caption')} ({first_names(self.companions)})")
        return f"{before}left out {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Classes:
    """Classes of pictures by their subfolders.

    Attributes:
        files: the pictures that count.
        names: of the classes, in the order of their indices; None where the pictures have no labels.
        indices: of the class of each picture.
        note: why there are no labels, or which pictures and subfolders do not count; empty where all do.
    """

    files: list[Path]
    names: list[str] | None
    indices: list[int]
    note: str = ""

    @classmethod
    def of(cls, folder: Path, files: list[Path]) -> "Classes":
        """Find the classes of a folder's pictures.

        Subfolders are classes if all pictures lie one level deep. Pictures next to the subfolders are left out where
        they are fewer than these; otherwise the folder counts as one without labels.
        """
        depths = [len(file.relative_to(folder).parts) - 1 for file in files]
        names = {file.parent.name for file, depth in zip(files, depths, strict=True) if depth == 1}
        strays = [file for file, depth in zip(files, depths, strict=True) if depth == 0]
        if max(depths) == 0:
            return cls(files, None, [], f"no labels: the images of {folder} lie in no subfolders")
        if max(depths) > 1:
            deepest = files[depths.index(max(depths))]
            return cls(files, None, [], f"no labels: {deepest} lies {max(depths)} folders deep, where classes lie one")
        if len(strays) >= len(names):
            what = f"{counted(len(strays), 'image')} ({first_names(strays)}) next to {counted(len(names), 'subfolder')}"
            return cls(files, None, [], f"no labels: {folder} holds {what}")
        counting = [file for file, depth in zip(files, depths, strict=True) if depth == 1]
        refuse_equal_names(folder, names)
        order = in_class_order(names)
        shown = [os.fsencode(name).decode(errors="backslashreplace") for name in order]  # names need not be UTF-8
        index = {name: number for number, name in enumerate(order)}
        empty = sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in names)
        empty = [path for path in empty if not is_foreign(path.name)]
        notes = []
        if strays:
            notes += [f"left out {counted(len(strays), 'image')} next to the classes' folders ({first_names(strays)})"]
        if empty:
            notes += [f"no class of {counted(len(empty), 'subfolder')} without an image ({first_names(empty)})"]
        return cls(counting, shown, [index[file.parent.name] for file in counting], "; ".join(notes))


def in_class_order(names: Iterable[str]) -> list[str]:
    """Sort names of classes: by number where all are numbers, else as text."""
    names = set(names)
    if all(name.isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def refuse_linked_twice(files: list[Path]) -> None:
    """Raise UserError where links lead to a file that is there already: it would count twice, even in both splits."""
    if not any(file.is_symlink() for file in files):
        return
    reached: dict[str, Path] = {}
    for file in files:
        first = reached.setdefault(os.path.realpath(file), file)
        if first is not file:
            raise UserError(f"{file}: the same file as {first}, which would count twice; remove one of the two")


def refuse_splits(folder: Path, files: list[Path]) -> None:
    """Raise UserError where subfolders are several splits of a data set, which would be trained on together."""
    tops = {parts[0] for file in files if len(parts := file.relative_to(folder).parts) > 1}
    if len(splits := sorted(name for name in tops if name.lower() in SPLITS)) > 1:
        first = next((name for name in splits if name.lower().startswith("train")), splits[0])
        raise UserError(
            f"data.path: {folder}: {', '.join(splits)} are splits of one data set, which would be trained on together; "
            f"name one of them, {folder / first}"
        )


def refuse_masks(folder: Path, files: list[Path]) -> None:
    """Raise UserError where pictures lie next to their masks, which would be trained on like them."""
    stems = {file.with_suffix("") for file in files}
    for stem in stems:
        for end in MASK_ENDS:
            if stem.name.endswith(end) and stem.with_name(stem.name.removesuffix(end)) in stems:
                raise UserError(f"data.path: {stem}: a mask of another picture; put masks into a folder elsewhere")
    names: dict[str, set[str]] = {}
    for stem in stems:
        names.setdefault(stem.parent.name, set()).add(stem.name)
    masks = [name for name in names if name.lower() in MASKS and name != folder.name]
    for name in masks:
        if any(names[name] & others for other, others in names.items() if other != name):
            raise UserError(
                f"data.path: {folder}: '{plain(name)}' holds files named as its pictures are, their masks; "
                "name the folder of the pictures alone"
            )


def refuse_equal_names(folder: Path, names: Iterable[str]) -> None:
    """Raise UserError for classes whose names differ by case, or by how an accent is written."""
    reached: dict[str, str] = {}
    for name in sorted(names):
        first = reached.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if first != name:
            raise UserError(f"data.path: {folder}: classes {first!a} and {name!a} differ in writing alone; join them")


def counted(number: int, what: str) -> str:
    """Write a number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def first_names(paths: Sequence[Path]) -> str:
    """Name the first few, for a message."""
    names = list(dict.fromkeys(path.name for path in paths))
    return plain(", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else ""))


def endings_of(files: Sequence[Path]) -> str:
    """Count files by their endings, the most frequent first."""
    counts = Counter(file.suffix.lower() or "without an ending" for file in files)
    parts = [f"{count:,} {ending}" for ending, count in counts.most_common(SHOWN)]
    return plain(", ".join(parts) + (", …" if len(counts) > SHOWN else "")) + f", first {plain(files[0].name)}"


class Folder(Source):
    """Pictures at any depth, sorted by path; subfolders are classes as `Classes.of` finds them."""

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        listed = PictureFolder.of(self.path)
        self.found = Classes.of(self.path, listed.files)
        self.notes = tuple(note for note in (listed.notes(), self.found.note) if note)
        self.why_unlabelled = self.found.note
        self.left_out = len(listed.left_out) + len(listed.files) - len(self.files)

    @property
    def files(self) -> list[Path]:
        """The pictures that count."""
        return self.found.files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> np.ndarray:
        pixels, steps = self.decoded(index)
        self.converted.update(steps)
        return pixels

    @property
    def classes(self) -> Sequence[str] | None:
        return self.found.names

    @property
    def labels(self) -> np.ndarray | None:
        return None if self.found.names is None else np.array(self.found.indices, dtype=np.int64)

    def survey(self) -> list[str]:
        """Describe the pixels by the files' heads. Raises UserError; one message counts all that cannot be used."""
        modes, refused = Counter[str](), list[str]()
        for file in self.files:
            try:
                modes[check_head(file, self.data)] += 1
            except UserError as error:
                refused.append(str(error))
        if refused:
            raise UserError(refusal_of(refused, len(self)))
        return [f"{len(self):,} images: " + ", ".join(f"{number:,} {mode}" for mode, number in modes.most_common())]

    def each(self, order: np.ndarray, parts: Path | None = None) -> Iterator[np.ndarray | UserError]:
        shape = (self.data.channels, self.data.image_size, self.data.image_size)
        return decoded(self.attempt, order, shape, parts, self.converted)

    def decoded(self, index: int) -> tuple[np.ndarray, list[str]]:
        """An image, uint8 [C, H, W], and what was converted with loss. Raises UserError where it cannot be used."""
        file = self.files[index]
        with readable(file):
            picture, steps = in_channels(decode(file), self.data, file)
            return channels_first(fitted(picture, self.data, file)), steps

    def attempt(self, index: int) -> tuple[np.ndarray | UserError, list[str]]:
        """An image as `decoded` has it, or why it cannot be used."""
        try:
            return self.decoded(index)
        except UserError as error:
            return error, []
