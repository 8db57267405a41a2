"""Sources of images: digits, patches, CIFAR-10, a folder or an array, each as uint8 [C, H, W] of one size.

A source returns one image at a time and reads it from disk only then, so that a data set may be larger than memory. It
refuses what it cannot use with a UserError that names the file.

Colour patches are cut from scikit-learn's two sample photographs, a temple roof and a flower. They do not overlap: a
held-out one shows nothing that a training one shows. Neighbours still share a sky or a petal, so held-out figures are
those of the same two scenes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from unequal.data.pictures import channels_first, decode, fitted, in_channels, readable, wrong_size
from unequal.errors import UserError, one_line
from unequal.files import files_below
from unequal.settings.data import Data

#: k-means clusters of the patches of one photograph.
KINDS = 5

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
#: Of images that are not read: films, several pages, more than eight bits, or decoders that Pillow may lack.
OTHER_ENDINGS = (".gif", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl", ".ppm", ".pgm")
#: Every class takes memory in a classifier; a label beyond is none, but a number of something else.
MOST_CLASSES = 1_000_000
#: Of the sources whose labels are known beforehand.
CLASSES = {"digits": 10, "patches": 2 * KINDS, "cifar10": 10}


class Images(Protocol):
    """uint8 images [C, H, W] by their index; an array [n, C, H, W] is one such."""

    def __len__(self) -> int:
        """Number of images."""

    def __getitem__(self, index: int, /) -> np.ndarray:
        """One image. Raises UserError where it cannot be read or has another form."""


@dataclass(frozen=True, eq=False)
class Source:
    """Images with their labels, int64 [n] in 0 … classes − 1, where they have any."""

    images: Images
    labels: np.ndarray | None = None
    classes: int | None = None


def load(data: Data) -> Source:
    """The source that the settings name. Raises UserError."""
    if data.source == "digits":
        return digits()
    if data.source == "patches":
        return patches(data.image_size)
    loaders: dict[str, Callable[[Path, Data], Source]] = {"cifar10": cifar10, "folder": folder, "array": array}
    assert data.path is not None  # the settings refuse every other source without a path
    return loaders[data.source](Path(data.path), data)


def classes_of(data: Data) -> int | None:
    """Number of classes of a source, None for one without labels; no image is read. Raises UserError."""
    if data.source in CLASSES:
        return CLASSES[data.source]
    path = Path(data.path or "")
    if data.source == "array":
        labels = read_arrays(path, "labels").get("labels")
        return None if labels is None else int(class_indices(labels, labels.size, path).max(initial=-1)) + 1
    try:
        return folder(path, data).classes
    except OSError as error:
        raise UserError(f"data.path: {path}: {one_line(error)}") from None


def digits() -> Source:
    """scikit-learn's 1,797 handwritten digits, 8 × 8; their values 0 … 16 are spread over 0 … 255."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    return Source(pixels[:, None], bunch.target.astype(np.int64), CLASSES["digits"])


def patches(size: int) -> Source:
    """Patches of scikit-learn's two sample photographs; classes are photographs and k-means clusters in them."""
    images, labels = cut_patches(size)
    return Source(images, labels, CLASSES["patches"])


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
    return Source(ArrayImages(dataset.data, path, data), labels, CLASSES["cifar10"])


def folder(path: Path, data: Data) -> Source:
    """Image files at any depth, sorted by name; subfolders are classes if all files lie one level deep.

    Links are followed, to folders as to files, each of which may be reached once; see `walked`. Hard links are images
    of their own, as copies are. Hidden files are none, nor what lies in hidden folders.
    """
    if not path.is_dir():
        raise UserError(
            f"{path}: {'not a folder' if path.exists() else 'missing'}; data.path must be a folder of images"
        )
    found = files_below(path)
    if others := [file for file in found if file.suffix.lower() in OTHER_ENDINGS]:
        raise UserError(
            f"{others[0]}: one of {len(others)} images of a kind that is not read; allowed: {', '.join(ENDINGS)}"
        )
    files = [file for file in found if file.suffix.lower() in ENDINGS]
    if not files:
        raise UserError(f"{path}: no images in it; files that end in {', '.join(ENDINGS)} are read")
    refuse_linked_twice(files)
    if any(len(file.relative_to(path).parts) != 2 for file in files):
        return Source(FolderImages(files, data))
    names, labels = np.unique([file.parent.name for file in files], return_inverse=True)
    return Source(FolderImages(files, data), labels.astype(np.int64), classes=len(names))


def refuse_linked_twice(files: list[Path]) -> None:
    """Raise UserError where links lead to a file that is there already: it would count twice, even in both splits."""
    if not any(file.is_symlink() for file in files):
        return
    reached: dict[str, Path] = {}
    for file in files:
        first = reached.setdefault(os.path.realpath(file), file)
        if first is not file:
            raise UserError(f"{file}: the same file as {first}, which would count twice; remove one of the two")


class FolderImages:
    """Image files, decoded one by one."""

    def __init__(self, files: list[Path], data: Data) -> None:
        self.files = files
        self.data = data

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> np.ndarray:
        """uint8 [C, H, W]."""
        file = self.files[index]
        with readable(file):
            picture = in_channels(decode(file), self.data.channels, file)
            return channels_first(fitted(picture, self.data, file))


def array(path: Path, data: Data) -> Source:
    """An .npy, which stays on disk, or an .npz, which is read at once: its `images` or only array, and `labels`."""
    arrays = read_arrays(path)
    labels = arrays.pop("labels", None)
    images = ArrayImages(only_images(arrays, path), path, data)
    if labels is None:
        return Source(images)
    labels = class_indices(labels, len(images), path)
    return Source(images, labels, classes=int(labels.max()) + 1)


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
            f"{path}: not readable ({one_line(error)}); allowed: a whole .npy or .npz without pickled objects"
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


def class_indices(labels: np.ndarray, count: int, path: Path) -> np.ndarray:
    """Labels as int64 [count], 0 or more. Raises UserError for any other form."""
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise UserError(
            f"{path}: labels of type {labels.dtype} and shape {labels.shape}; allowed: integers, shape ({count},)"
        )
    if wrong := [label for label in (labels.min(initial=0), labels.max(initial=0)) if not 0 <= label < MOST_CLASSES]:
        raise UserError(f"{path}: label {wrong[0]}; allowed: 0 … {MOST_CLASSES - 1}")
    return labels.astype(np.int64)


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
        """uint8 [C, H, W]."""
        with readable(self.path):
            pixels = self.pixels[index]
            picture = Image.fromarray(pixels[..., 0] if self.data.channels == 1 else pixels)
            return channels_first(fitted(picture, self.data, self.path))


def cut_patches(size: int) -> tuple[np.ndarray, np.ndarray]:
    """All patches of both photographs (427 × 640 RGB), on a grid of `size` pixels from the top left.

    A label says of which photograph a patch is and which of its KINDS clusters it is nearest to:
    plain, textured or striped parts of one colour or another. No one has named these classes; they
    are there for features of a classifier to be learned from.

    Args:
        size: height and width of a patch in pixels, at most 128.

    Returns:
        uint8 [n, 3, size, size] and int64 [n] in 0 … 2·KINDS − 1.
    """
    from sklearn.datasets import load_sample_images

    grids = [grid_of(photograph, size) for photograph in load_sample_images().images]
    labels = [KINDS * number + clusters(patches) for number, patches in enumerate(grids)]
    return np.concatenate(grids), np.concatenate(labels)


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
