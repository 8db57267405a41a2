"""Survey of a folder of images: number, sizes, kinds and labels, and anything unusual."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from unequal.data.folders import Folder
from unequal.data.pictures import converted, decode, is_grey, is_transparent, opened
from unequal.errors import UserError, UserErrors
from unequal.runtime.outside import expanded
from unequal.runtime.progress import tracked
from unequal.settings.core import Core
from unequal.settings.data import Data

#: Largest number of files that are decoded, at random in larger folders. Sizes and modes are read from all files.
DECODED = 500
#: Shares above which a class, or the part that cropping removes, is reported.
LARGE_CLASS, CROPPED = 0.6, 1 / 3
#: Number of images below which a class hardly shapes features.
SMALL_CLASS = 10
#: Number of images below which a model may memorize them.
FEW = 1000
#: Orientations of EXIF from which width and height change places.
LYING = 5


@dataclass(frozen=True)
class Survey:
    """Facts on a folder of images.

    Attributes:
        files: files of the images, sorted.
        classes: images of each class, by its name; empty without labels.
        sizes: width and height of each readable file, upright.
        modes: Pillow's mode → number of files.
        turned: number of files that their EXIF data turn upright.
        grey, transparent: of the decoded files, those without colour, and those with transparent pixels.
        unreadable, copies: files that cannot be read, and files with the bytes of an earlier one.
        notes: notes on files that are left out, and on why there are no labels.
    """

    files: Sequence[Path]
    classes: dict[str, int]
    sizes: np.ndarray
    modes: Counter[str]
    turned: int
    grey: list[Path]
    transparent: list[Path]
    decoded: int
    unreadable: list[Path]
    copies: list[Path]
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, path: Path, size: int) -> "Survey":
        """Survey a folder. Raises UserError where it holds no readable images."""
        data = Data(source="folder", path=str(path), image_size=size, channels=3, fit="crop", holdout=0.1)
        source = Folder(data)
        files = source.files
        sizes, modes, turned, unreadable = list[tuple[int, int]](), Counter[str](), 0, list[Path]()
        for file in tracked(files, "files", "reads sizes"):
            try:
                with opened(file) as header:
                    orientation = orientation_of(header)
                    sizes.append(header.size if orientation < LYING else header.size[::-1])
                    modes[header.mode] += 1
                    turned += orientation > 1
            except (OSError, ValueError, SyntaxError):
                unreadable.append(file)
        readable = sorted(set(files) - set(unreadable))
        if not readable:
            raise UserError(f"{path}: none of its {len(files)} images can be read")
        chosen = np.random.default_rng(0).permutation(len(readable))[:DECODED]
        grey, transparent, decoded = list[Path](), list[Path](), 0
        for file in tracked([readable[index] for index in sorted(chosen)], "files", "decodes"):
            try:
                picture = decode(file)
                colours = converted(picture, 3)
            except (OSError, ValueError, SyntaxError):
                unreadable.append(file)
                continue
            decoded += 1
            transparent += [file] if is_transparent(picture) else []
            grey += [file] if is_grey(colours) else []
        classes = Counter(file.parent.name for file in files) if source.labels is not None else {}
        found = (grey, transparent, decoded, unreadable, copies(files))
        return cls(files, dict(classes), np.array(sizes), modes, turned, *found, source.notes)

    @property
    def channels(self) -> int:
        """Number of channels: 1 if no decoded image has colour, else 3."""
        return 1 if len(self.grey) == self.decoded else 3

    @property
    def labels(self) -> int | None:
        """Number of classes, if there are at least two; else None."""
        return len(self.classes) if len(self.classes) > 1 else None

    def fits(self, size: int) -> bool:
        """Say whether all images are squares of this size."""
        return bool((self.sizes == size).all())

    def fitted(self, size: int) -> str:
        """Describe the operations that bring the images to this size."""
        if self.fits(size):
            return "as they are"
        return "resized" if bool((self.sizes[:, 0] == self.sizes[:, 1]).all()) else "cropped to squares and resized"

    def summary(self) -> str:
        """Line on number, sizes, kinds and labels."""
        ends = [f"{width} × {height}" for width, height in (self.sizes.min(0), self.sizes.max(0))]
        kinds = ", ".join(f"{count:,} {mode}" for mode, count in self.modes.most_common())
        classes = [f"{name} {count:,}" for name, count in sorted(self.classes.items(), key=lambda item: -item[1])]
        labels = f"{self.labels} classes: {listed(classes)}" if self.labels else "no labels"
        return f"{len(self.files):,} images, {' to '.join(dict.fromkeys(ends))} pixels ({kinds}), {labels}"

    def oddities(self, size: int) -> Iterator[str]:
        """Yield lines on unusual properties, for images that are brought to a size in pixels."""
        yield from (note for note in self.notes if not note.endswith("in no subfolders"))
        of = "" if self.decoded == len(self.files) else f" of {self.decoded:,} that were looked at"
        short, long = self.sizes.min(1), self.sizes.max(1)
        small, cropped = int((short < size).sum()), int((short / long < 1 - CROPPED).sum())
        lines = [
            (self.unreadable, "cannot be read: training refuses such files; remove or replace them"),
            (self.turned, "are turned upright, as their EXIF data say"),
            (self.transparent, f"{of} have transparent pixels, put on data.background (white by default)"),
            (self.grey if self.channels == 3 else 0, f"{of} are grey among colour, and are made RGB"),
            (self.copies, "are copies of another file: equal images stand on one side of the split"),
            (small, f"are smaller than {size} pixels, and are enlarged"),
            (cropped, "lose more than a third by a square crop (data.fit: resize squeezes them instead)"),
        ]
        yield from (f"{numbered(what)} {text.lstrip()}" for what, text in lines if what)
        if len(self.classes) == 1:
            yield f"all lie in one folder, {next(iter(self.classes))}: that is no label"
        elif self.classes:
            name, most = max(self.classes.items(), key=lambda item: item[1])
            if most >= LARGE_CLASS * len(self.files):
                yield f"class {name} holds {100 * most / len(self.files):.0f} % of all images"
        if rare := [name for name, count in self.classes.items() if count < SMALL_CLASS]:
            yield f"classes of fewer than {SMALL_CLASS} images: {listed(rare)}"
        if len(self.files) < FEW:
            yield f"{len(self.files)} images are few: compare samples with their nearest training images"


def refuse_unreadable(params: Core) -> None:
    """Raise UserErrors that name the files of a folder that cannot be read, as far as a survey finds them."""
    data = params.data
    if data.source == "folder" and data.path is not None:
        survey = Survey.of(Path(expanded(data.path)), data.image_size)
        if survey.unreadable:
            raise UserErrors(
                [f"data.path: {file}: not a readable image; repair or remove it" for file in survey.unreadable]
            )


def orientation_of(header: Image.Image) -> int:
    """EXIF's orientation of an opened file, 1 to 8; damaged EXIF data say nothing."""
    try:
        return int(header.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # Pillow raises what their decoding raises
        return 1


def numbered(files: Sequence[Path] | int) -> str:
    """Number of files as text, with their first names if they are known."""
    if isinstance(files, int):
        return f"{files:,}"
    return f"{len(files):,} ({listed([file.name for file in files], 2)})"


def listed(names: Sequence[str], most: int = 8) -> str:
    """First names of several, as text."""
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])])


def copies(files: Sequence[Path]) -> list[Path]:
    """Files with the same bytes as an earlier file; only files of equal size are read."""
    sizes = {file: file.stat().st_size for file in files}
    common, known, repeated = Counter(sizes.values()), set[bytes](), list[Path]()
    for file in tracked([file for file in files if common[sizes[file]] > 1], "files", "looks for copies"):
        digest = hashlib.sha256(file.read_bytes()).digest()
        repeated += [file] if digest in known else []
        known.add(digest)
    return repeated
