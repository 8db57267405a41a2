"""Single pictures: decoding, the number of channels, the size. Whatever does not fit is refused by file name."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from unequal.errors import UserError, one_line
from unequal.settings.data import Data

GREY_MODES = ("1", "L", "LA")
PALETTE_MODES = ("P", "PA")
COLOUR_MODES = ("RGB", "RGBA", *PALETTE_MODES)
KINDS = {1: "grey", 3: "RGB"}
#: What a file may hold, whatever its name says: Pillow hands other formats to programs (Ghostscript) of their own.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Raise UserError where a file cannot be read: damaged, cut short, or larger unpacked than a picture may be.

    What Pillow only warns of is read as it is.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UserError:
        raise
    except Exception as error:  # each of Pillow's decoders has its own way to say that a file is damaged
        raise UserError(f"{file}: not a readable image ({one_line(error)})") from None


def decode(file: Path) -> Image.Image:
    """The (first) picture of a file, turned upright as its EXIF data say."""
    with Image.open(file, formats=FORMATS) as picture:
        return ImageOps.exif_transpose(picture)


def in_channels(picture: Image.Image, channels: int, file: Path) -> Image.Image:
    """The picture in Pillow's mode L (channels 1) or RGB (3). Raises UserError where it is the other."""
    palette = picture.mode in PALETTE_MODES
    picture = without_alpha(picture, file)
    if palette and channels == 1:
        picture = grey_if_equal(picture)
    found = 1 if picture.mode == "L" else 3
    if found != channels:
        raise UserError(
            f"{file}: {KINDS[found]}, where data.channels: {channels} allows {KINDS[channels]} only; "
            f"convert the image or set channels: {found}"
        )
    return picture


def without_alpha(picture: Image.Image, file: Path) -> Image.Image:
    """Picture in mode L or RGB; bilevel, palette and opaque alpha lose nothing by it."""
    if picture.has_transparency_data and picture.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        raise UserError(f"{file}: has transparent pixels; put it on a background, only opaque images are allowed")
    if picture.mode in GREY_MODES:
        return picture.convert("L")
    if picture.mode in COLOUR_MODES:
        # By way of RGBA, where palettes with transparent entries keep their colours.
        return picture.convert("RGBA").convert("RGB")
    raise UserError(f"{file}: pixels of mode {picture.mode}; allowed: 8-bit grey, RGB or palette")


def grey_if_equal(picture: Image.Image) -> Image.Image:
    """An RGB picture as grey, if its three channels are equal, else as it is."""
    grey = picture.convert("L")
    return grey if grey.convert("RGB").tobytes() == picture.tobytes() else picture


def fitted(picture: Image.Image, data: Data, file: Path) -> Image.Image:
    """The picture at image_size × image_size. Raises UserError for another size under `fit: exact`."""
    size = (data.image_size, data.image_size)
    if picture.size == size:
        return picture
    if data.fit == "exact":
        raise wrong_size(file, *picture.size, data)
    if data.fit == "crop":
        # The largest centred square, scaled: the short side becomes image_size, the long one loses its ends.
        return ImageOps.fit(picture, size, Image.Resampling.LANCZOS)
    return picture.resize(size, Image.Resampling.LANCZOS)


def channels_first(picture: Image.Image) -> np.ndarray:
    """A picture in mode L or RGB as uint8 [C, H, W]."""
    pixels = np.asarray(picture)
    return pixels[None] if picture.mode == "L" else pixels.transpose(2, 0, 1)


def wrong_size(file: Path, width: int, height: int, data: Data) -> UserError:
    """The refusal of an image of another size."""
    return UserError(
        f"{file}: {width} × {height} pixels, where data.image_size is {data.image_size}; "
        "data.fit: exact allows no other size, crop or resize bring images to it"
    )
