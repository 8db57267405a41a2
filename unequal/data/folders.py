"""Folders of pictures as people have them: which files are pictures, which subfolders are classes, what is left out."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from unequal.data.pictures import is_picture
from unequal.errors import UserError, plain
from unequal.runtime.files import files_below, is_foreign

#: How many names a message shows.
SHOWN = 3
#: Lists of captions or labels.
METADATA = ("metadata.jsonl", "metadata.csv")


@dataclass(frozen=True)
class PictureFolder:
    """Pictures of a folder, at any depth.

    Attributes:
        files: in the order of their paths.
        left_out: files that are no pictures, and none's companion: a caption has its name, a list is METADATA.
        foreign: folders of other programs, which are not looked into.
    """

    folder: Path
    files: list[Path]
    left_out: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)

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
            (pictures if is_picture(file) else others).append(file)
        foreign = [path for path in foreign if not path.name.startswith(".")]
        names = {file.with_suffix("") for file in pictures}
        others = [file for file in others if file.with_suffix("") not in names and file.name not in METADATA]
        listed = cls(folder, pictures, others, foreign)
        if not pictures:
            raise UserError(f"{folder}: no images in it{listed.notes(': ')}")
        refuse_linked_twice(pictures)
        return listed

    def notes(self, before: str = "") -> str:
        """Count what is left out, and name the first; empty where there is nothing."""
        parts = []
        if self.left_out:
            parts.append(f"{counted(len(self.left_out), 'file')} without a picture ({endings_of(self.left_out)})")
        if self.foreign:
            parts.append(f"{counted(len(self.foreign), 'folder')} of other programs ({first_names(self.foreign)})")
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
