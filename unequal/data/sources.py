"""Sources of images: digits, patches, CIFAR-10, a folder or an array, each as uint8 [C, H, W] of one size.

A source returns one image at a time and reads it from disk only then, so that a data set may be larger than memory. It
refuses what it cannot use with a UserError that names the file.

Colour patches are cut from scikit-learn's two sample photographs, a temple roof and a flower. They do not overlap: a
held-out one shows nothing that a training one shows. Neighbours still share a sky or a petal, so held-out figures are
those of the same two scenes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from unequal.data.folders import Classes, PictureFolder
from unequal.data.pictures import channels_first, decode, fitted, in_channels, readable, wrong_size
from unequal.errors import UserError, first_line, one_line
from unequal.settings.data import Data

#: scikit-learn's file of digits: a row an image, 64 values and its label.
DIGITS = "sklearn/datasets/data/digits.csv.gz"
#: k-means clusters of the patches of one photograph.
KINDS = 5

#: Names of an archive's array of labels.
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
#: A label beyond is none, but a number of something else.
MOST_CLASSES = 1_000_000
#: Numbers of classes of sources whose labels are known beforehand.
CLASSES = {"digits": 10, "patches": 2 * KINDS, "cifar10": 10}


class Images(Protocol):
    """uint8 images [C, H, W] by their index; an array [n, C, H, W] is one such."""

    def __len__(self) -> int:
        """Number of images."""

    def __getitem__(self, index: int, /) -> np.ndarray:
        """One image. Raises UserError where it cannot be read or has another form."""


@dataclass(frozen=True, eq=False)
class Source:
    """Images with their labels, where they have any.

    Attributes:
        labels: int64 [n], indices of `classes`.
        classes: their names.
        notes: what a person should know of them, a line each.
        left_out: files and images that do not count.
    """

    images: Images
    labels: np.ndarray | None = None
    classes: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    left_out: int = 0


def load(data: Data) -> Source:
    """The source that the settings name.

    Raises UserError, for what the file system refuses too (a name that is too long).
    """
    if data.source == "digits":
        return digits()
    if data.source == "patches":
        return patches(data.image_size)
    loaders: dict[str, Callable[[Path, Data], Source]] = {"cifar10": cifar10, "folder": folder, "array": array}
    assert data.path is not None  # the settings refuse every other source without a path
    try:
        return loaders[data.source](Path(data.path), data)
    except OSError as error:
        raise UserError(f"data.path: {data.path}: {one_line(error)}") from None


def labels_in(data: Data) -> tuple[int | None, str]:
    """Find the number of classes of a source, and why there are none; no image is read. Raises UserError."""
    if data.source in CLASSES:
        return CLASSES[data.source], ""
    path = Path(data.path or "")
    if data.source == "array":
        labels = label_array(read_arrays(path, *LABEL_NAMES), path)
        if labels is None:
            return None, f"no labels: {path} has no array 'labels'"
        return len(class_indices(labels, labels.size, path)[0]), ""
    try:
        classes = Classes.of(path, PictureFolder.of(path).files)
    except OSError as error:
        raise UserError(f"data.path: {path}: {one_line(error)}") from None
    return None if classes.names is None else len(classes.names), classes.note


def digits() -> Source:
    """scikit-learn's 1,797 handwritten digits, 8 × 8; their values 0 … 16 are spread over 0 … 255.

    Their file is read by itself: the library imports pandas and SciPy, which takes a second.
    """
    table = np.loadtxt(str(distribution("scikit-learn").locate_file(DIGITS)), delimiter=",")
    pixels = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8)
    return Source(pixels.reshape(-1, 1, 8, 8), table[:, -1].astype(np.int64), numbered("digits"))


def patches(size: int) -> Source:
    """All patches of scikit-learn's two sample photographs (427 × 640 RGB), on a grid of `size` pixels
    from the top left.

    A label says of which photograph a patch is and which of its KINDS clusters it is nearest to:
    plain, textured or striped parts of one colour or another. No one has named these classes; they
    are there for features of a classifier to be learned from.

    Args:
        size: height and width of a patch in pixels, at most 128.
    """
    from sklearn.datasets import load_sample_images

    grids = [grid_of(photograph, size) for photograph in load_sample_images().images]
    labels = [KINDS * number + clusters(grid) for number, grid in enumerate(grids)]
    return Source(np.concatenate(grids), np.concatenate(labels), numbered("patches"))


def numbered(source: str) -> list[str]:
    """Name the classes of a source by their numbers."""
    return [str(number) for number in range(CLASSES[source])]


def cifar10(path: Path, data: Data) -> Source:
    """CIFAR-10's 50,000 training images, 32 × 32 RGB, downloaded where `path` does not hold them.

    torchvision unpickles the files, but only after it has compared their MD5 sums with its own table.
    """
    from torchvision.datasets import CIFAR10

    batches = path / CIFAR10.base_folder
    present = batches.exists()
    try:
        dataset = CIFAR10(path, train=True, download=not present)
    except (OSError, RuntimeError) as error:
        if present:
            raise UserError(f"{batches}: files missing or damaged; delete the folder to download it again") from None
        raise UserError(f"{path}: CIFAR-10 is not there and could not be downloaded ({one_line(error)})") from None
    labels = np.array(dataset.targets, dtype=np.int64)
    return Source(ArrayImages(dataset.data, path, data), labels, dataset.classes)


def folder(path: Path, data: Data) -> Source:
    """Pictures at any depth, sorted by path; subfolders are classes as `Classes.of` finds them."""
    listed = PictureFolder.of(path)
    classes = Classes.of(path, listed.files)
    notes = tuple(note for note in (listed.notes(), classes.note) if note)
    labels = None if classes.names is None else np.array(classes.indices, dtype=np.int64)
    left_out = len(listed.left_out) + len(listed.files) - len(classes.files)
    return Source(FolderImages(classes.files, data), labels, classes.names, notes, left_out)


class FolderImages:
    """Image files, decoded one by one.

    Attributes:
        converted: what was converted with loss so far → number of images.
    """

    def __init__(self, files: list[Path], data: Data) -> None:
        self.files = files
        self.data = data
        self.converted: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> np.ndarray:
        pixels, steps = self.decoded(index)
        self.converted.update(steps)
        return pixels

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


def array(path: Path, data: Data) -> Source:
    """An .npy, which stays on disk, or an .npz, which is read at once: its `images` or only array, and its labels."""
    arrays = read_arrays(path)
    labels = label_array(arrays, path)
    images = ArrayImages(only_images(arrays, path), path, data)
    unused = sorted(arrays.keys() - {"images"}) if "images" in arrays else []
    notes = (f"left out of {path}: {', '.join(unused)}; labels have the name 'labels'",) if unused else ()
    if labels is None:
        return Source(images, notes=notes)
    names, indices = class_indices(labels, len(images), path)
    return Source(images, indices, names, notes)


def label_array(arrays: dict[str, np.ndarray], path: Path) -> np.ndarray | None:
    """Take the labels out of an archive's arrays. Raises UserError where two arrays may be meant."""
    named = [name for name in LABEL_NAMES if name in arrays]
    if len(named) > 1:
        raise UserError(f"{path}: holds {' and '.join(map(repr, named))}; one array of labels is allowed")
    return arrays.pop(named[0]) if named else None


def read_arrays(path: Path, *names: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name, or the one of an .npy, mapped. Raises UserError where the file is unfit.

    Of an .npz, those with these names alone, where any are given and as far as they are there.
    """
    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"images": content}
        with content:
            arrays = {name: content[name] for name in content.files if not names or name in names}
    except FileNotFoundError:
        raise UserError(f"{path}: missing; data.path must be an .npy or .npz of images") from None
    except Exception as error:  # numpy has many ways to say that a file is damaged
        raise UserError(
            f"{path}: not readable ({first_line(error)}); allowed: a whole .npy or .npz without pickled objects"
        ) from None
    # Of a member that is no array NumPy gives the bytes.
    if others := [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]:
        raise UserError(f"{path}: '{others[0]}' in it is no array; allowed: arrays alone")
    return arrays


def only_images(arrays: dict[str, np.ndarray], path: Path) -> np.ndarray:
    """The array that holds the images. Raises UserError where there is no telling, or it is not of uint8."""
    if "images" not in arrays and len(arrays) != 1:
        raise UserError(f"{path}: holds {', '.join(arrays) or 'no images'}; name the array of images 'images'")
    images = arrays["images"] if "images" in arrays else next(iter(arrays.values()))
    if images.dtype != np.uint8:
        raise UserError(f"{path}: values of type {images.dtype}; allowed: uint8, 0 to 255")
    if images.size == 0:
        raise UserError(f"{path}: no images in it, its shape is {images.shape}")
    return images


def channels_last(images: np.ndarray, data: Data, path: Path) -> np.ndarray:
    """NCHW, NHWC or (grey) NHW images as a view [n, H, W, C].

    Axes are distinguished by the number of channels; where both layouts could be meant, by the size,
    and failing that the images count as NCHW.
    """
    views = []
    if images.ndim == 4 and images.shape[1] == data.channels:
        views.append(images.transpose(0, 2, 3, 1))
    if images.ndim == 4 and images.shape[3] == data.channels:
        views.append(images)
    if images.ndim == 3 and data.channels == 1:
        views.append(images[..., None])
    if not views:
        layouts = "[n, 1, H, W], [n, H, W, 1] or [n, H, W]" if data.channels == 1 else "[n, 3, H, W] or [n, H, W, 3]"
        raise UserError(f"{path}: shape {images.shape}; data.channels: {data.channels} allows {layouts}")
    of_size = [view for view in views if view.shape[1:3] == (data.image_size, data.image_size)]
    if data.fit == "exact" and not of_size:
        raise wrong_size(path, views[0].shape[2], views[0].shape[1], data)
    return (of_size or views)[0]


def class_indices(labels: np.ndarray, count: int, path: Path) -> tuple[list[str], np.ndarray]:
    """Number the classes that occur.

    Args:
        labels: integers, 0 or more, [count] or [count, 1].
        count: of the images.
        path: for messages.

    Returns:
        The classes' own numbers in ascending order, as text, and int64 [count], each image's place among these.

    Raises:
        UserError: labels of any other form.
    """
    if labels.shape not in ((count,), (count, 1)) or labels.dtype.kind not in "iu":
        raise UserError(
            f"{path}: labels of type {labels.dtype} and shape {labels.shape}; allowed: integers, shape ({count},)"
        )
    if wrong := [label for label in (labels.min(initial=0), labels.max(initial=0)) if not 0 <= label < MOST_CLASSES]:
        raise UserError(f"{path}: label {wrong[0]}; allowed: 0 … {MOST_CLASSES - 1}")
    values, indices = np.unique(labels.reshape(count), return_inverse=True)
    return [str(value) for value in values], indices.astype(np.int64)


class ArrayImages:
    """Images [n, H, W, C] of an array, of image_size or brought to it one by one."""

    def __init__(self, pixels: np.ndarray, path: Path, data: Data) -> None:
        """Raises UserError where the number of channels or, under `fit: exact`, the size is another."""
        self.pixels = channels_last(pixels, data, path)
        self.path = path
        self.data = data

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> np.ndarray:
        with readable(self.path):
            pixels = self.pixels[index]
            picture = Image.fromarray(pixels[..., 0] if self.data.channels == 1 else pixels)
            return channels_first(fitted(picture, self.data, self.path))


def grid_of(photograph: np.ndarray, size: int) -> np.ndarray:
    """Patches [n, C, size, size] of an image [H, W, C], row by row; what is left at the end of a side is dropped."""
    height, width, channels = photograph.shape
    rows, columns = height // size, width // size
    whole = photograph[: rows * size, : columns * size].reshape(rows, size, columns, size, channels)
    return whole.transpose(0, 2, 4, 1, 3).reshape(rows * columns, channels, size, size)


def clusters(patches: np.ndarray) -> np.ndarray:
    """The k-means cluster of each patch, int64 [n] in 0 … KINDS − 1; always the same ones."""
    from sklearn.cluster import KMeans

    found = KMeans(KINDS, n_init=10, random_state=0).fit_predict(descriptors(patches))
    return found.astype(np.int64)


def descriptors(patches: np.ndarray) -> np.ndarray:
    """Mean colour, contrast and steepness in either direction, standardised over the patches, [n, 6]."""
    pixels = patches.astype(np.float64)
    grey = pixels.mean(1)
    steepness = [np.abs(np.diff(grey, axis=axis)).mean((1, 2)) for axis in (1, 2)]
    # Logarithms, since a few strong edges would otherwise be all that distinguishes patches.
    structure = np.log1p(np.stack([grey.std((1, 2)), *steepness], axis=1))
    table = np.concatenate([pixels.mean((2, 3)), structure], axis=1)
    return (table - table.mean(0)) / table.std(0)
