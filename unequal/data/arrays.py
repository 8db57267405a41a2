"""Sources of images that lie in one array: an .npy or .npz file, and CIFAR-10."""

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from unequal.data.pictures import channels_first, fitted, kind_of, readable, wrong_size
from unequal.data.source import Source
from unequal.errors import UserError, first_line, one_line
from unequal.settings.data import Data

#: Names of an archive's array of labels.
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
#: A label beyond is none, but a number of something else.
MOST_CLASSES = 1_000_000


class ArraySource(Source):
    """Images [n, H, W, C] of an array, of image_size or brought to it one by one."""

    @property
    def pixels(self) -> np.ndarray:
        """All images, as a view of their array."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int, /) -> np.ndarray:
        with readable(self.path):
            pixels = self.pixels[index]
            picture = Image.fromarray(pixels[..., 0] if self.data.channels == 1 else pixels)
            return channels_first(fitted(picture, self.data, self.path))


class Array(ArraySource):
    """An .npy, which stays on disk, or an .npz, which is read at once: its `images` or only array, and its labels."""

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        arrays = read_arrays(self.path)
        labels = label_array(arrays, self.path)
        self.view = channels_last(only_images(arrays, self.path), data, self.path)
        self.numbered = None if labels is None else class_indices(labels, len(self.view), self.path)
        unused = sorted(arrays.keys() - {"images"}) if "images" in arrays else []
        if unused:
            self.notes = (f"left out of {self.path}: {', '.join(unused)}; labels have the name 'labels'",)
        if labels is None:
            self.why_unlabelled = f"no labels: {self.path} has no array 'labels'"

    @property
    def pixels(self) -> np.ndarray:
        return self.view

    @property
    def classes(self) -> list[str] | None:
        return None if self.numbered is None else self.numbered[0]

    @property
    def labels(self) -> np.ndarray | None:
        return None if self.numbered is None else self.numbered[1]


class Cifar10(ArraySource):
    """CIFAR-10's 50,000 training images, 32 × 32 RGB, downloaded where `path` does not hold them.

    torchvision unpickles the files, but only after it has compared their MD5 sums with its own table.
    """

    hashed: ClassVar[bool] = False  # the folder may be empty before the download
    numbers_are_known: ClassVar[bool] = True
    count: ClassVar[int] = 50_000

    @classmethod
    def check(cls, data: Data) -> None:
        if data.channels != 3 or (data.fit == "exact" and data.image_size != 32):
            raise UserError(
                "data: cifar10 is 32 pixels wide with 3 channels; another image_size needs fit: crop or resize"
            )

    def survey(self) -> list[str]:
        return [f"{len(self.pixels):,} images"]  # a download that fails does so once

    @cached_property
    def dataset(self) -> Any:
        """torchvision's data set."""
        from torchvision.datasets import CIFAR10

        batches, present = self.path / CIFAR10.base_folder, False
        try:
            present = batches.exists()
            return CIFAR10(self.path, train=True, download=not present)
        except (OSError, RuntimeError) as error:
            if present:
                what = "files missing or damaged; delete the folder to download it again"
                raise UserError(f"{batches}: {what}") from None
            raise UserError(
                f"{self.path}: CIFAR-10 is not there and could not be downloaded ({one_line(error)})"
            ) from None

    @cached_property
    def pixels(self) -> np.ndarray:
        """All images."""
        return channels_last(self.dataset.data, self.data, self.path)

    def __len__(self) -> int:
        return self.count

    @property
    def classes(self) -> list[str]:
        return [
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ]

    @property
    def labels(self) -> np.ndarray:
        return np.array(self.dataset.targets, dtype=np.int64)


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
        why = kind_of(path) or first_line(error)
        raise UserError(
            f"{path}: not readable ({why}); allowed: a whole .npy or .npz without pickled objects"
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
