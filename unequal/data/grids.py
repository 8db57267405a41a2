"""Images as PNG files: one an image, or many in one grid."""

import io
import math
from pathlib import Path

import numpy as np
from PIL import Image

#: Rows of a grid that a training draws, and its columns.
ROWS = 4


def spaced(images: np.ndarray) -> np.ndarray:
    """Images [N, C, H, W] with a white margin at the right and below, an eighth of their size."""
    return np.pad(images, ((0, 0), (0, 0), *((0, max(1, side // 8)) for side in images.shape[2:])), constant_values=255)


def tiled(images: np.ndarray) -> np.ndarray:
    """One image [C, H·rows, W·columns] of images [N, C, H, W], row by row, about as high as wide; the rest is black."""
    count, channels, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    cells = np.zeros((rows * columns, channels, height, width), images.dtype)
    cells[:count] = images
    grid = cells.reshape(rows, columns, channels, height, width).transpose(2, 0, 3, 1, 4)
    return grid.reshape(channels, rows * height, columns * width)


def untiled(grid: np.ndarray, rows: int = ROWS) -> np.ndarray:
    """The images [rows², C, H, W] of a full grid [C, H·rows, W·rows]."""
    channels, height, width = len(grid), grid.shape[1] // rows, grid.shape[2] // rows
    cells = grid.reshape(channels, rows, height, rows, width).transpose(1, 3, 0, 2, 4)
    return cells.reshape(rows * rows, channels, height, width)


def enlarged(image: np.ndarray, pixels: int) -> np.ndarray:
    """An image [C, H, W], each pixel repeated as often as `pixels` a side allow."""
    factor = max(1, pixels // max(image.shape[1:]))
    return image.repeat(factor, 1).repeat(factor, 2)


def png_of(image: np.ndarray) -> bytes:
    """A PNG file of an image, uint8 [C, H, W] with 1, 3 or 4 channels."""
    pixels, file = image.transpose(1, 2, 0), io.BytesIO()
    Image.fromarray(pixels.squeeze(-1) if len(image) == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def read_png(path: Path) -> np.ndarray:
    """Read an image, uint8 [C, H, W]."""
    with Image.open(path) as image:
        pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
