"""Single pictures: what is one, decoding, channels, size. A picture that does not fit is refused by file name.

| a file holds | it becomes |
|---|---|
| grey where RGB is asked for, RGB where grey is | converted (ITU-R 601 luma) |
| CMYK, YCbCr | RGB, without a colour profile |
| 16 bits a channel | the high byte |
| transparent pixels | put on `data.background` |
| a palette, one bit, opaque alpha | its colours, without loss |
| an animation, several pages | the first picture |
| an orientation by EXIF | turned upright |
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

from unequal.errors import UserError, one_line
from unequal.settings.data import Data

GREY_MODES = ("1", "L", "LA")
PALETTE_MODES = ("P", "PA")
COLOUR_MODES = ("RGB", "RGBA", "RGBX", *PALETTE_MODES)
#: Further modes with three colours of eight bits.
PRINT_MODES = ("CMYK", "YCbCr")
#: Sixteen bits; of 16-bit RGB, Pillow reads the high bytes.
DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N")
KINDS = {1: "grey", 3: "RGB"}
#: Formats that are read, whatever a file's name says: Pillow passes some others to programs such as Ghostscript.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "AVIF", "JPEG2000")
#: Formats without a mark at the beginning, which any file might be: only where the name says so.
UNMARKED = {".dib": "DIB", ".tga": "TGA", ".icb": "TGA", ".vda": "TGA", ".vst": "TGA"}
#: A file with one of these endings is meant as a picture, and refused where it is none.
ENDINGS = frozenset(
    (
        ".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm",
        ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".j2k", ".jpf", *UNMARKED,
    )
)  # fmt: skip
#: Containers of raw photographs, which begin like a TIFF.
RAW_ENDINGS = frozenset((".dng", ".cr2", ".nef", ".arw", ".orf", ".rw2", ".pef", ".srw"))
BEGINNING = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP|II\*\0|MM\0\*|P[1-6]\s+[#\d]|"
    rb"BM.{12}[\x0c\x10\x28\x34\x38\x40\x6c\x7c]\0\0\0|.{4}ftypavi[fs]|\0\0\0\x0cjP  |\xff\x4f\xff\x51",
    re.DOTALL,
)
#: HEIF and JPEG XL, for which Pillow has no decoder.
UNREAD_BEGINNING = re.compile(rb".{4}ftyp(hei[cxms]|hev[cxms]|mif1|msf1)|\xff\x0a|\0\0\0\x0cJXL ", re.DOTALL)
UNREAD_ENDINGS = frozenset((".heic", ".heif", ".hif", ".jxl"))
LONGEST_BEGINNING = 64
#: What other files begin with, in small letters.
STRANGERS = {
    b"version https://git-lfs": "a pointer of Git LFS, for which `git lfs pull` brings the file",
    b"<!doctype html": "a page in HTML",
    b"<html": "a page in HTML",
    b"\x89hdf\r\n": "a file of HDF5",
}
#: Bytes of a PNG's texts (settings of its generator, edits) and colour profile, unpacked. Pillow's default is 1 MiB.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = 64 * 2**20  # type: ignore[bad-assignment]
WHITE = (255, 255, 255)


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
        raise UserError(f"{file}: not a readable image ({kind_of(file) or one_line(error)})") from None


def kind_of(file: Path) -> str:
    """Name what is often taken for data, by its first bytes; empty for all else."""
    try:
        with file.open("rb") as stream:
            beginning = stream.read(LONGEST_BEGINNING).lower()
    except OSError:
        return ""
    if not beginning:
        return "an empty file"
    return next((kind for start, kind in STRANGERS.items() if beginning.lstrip().startswith(start)), "")


def is_picture(file: Path) -> bool:
    """Say whether a file is a picture: by its content, or by a name that promises one.

    Raises:
        UserError: a picture of a format without a decoder.
        OSError: it cannot be read.
    """
    ending = file.suffix.lower()
    if ending in ENDINGS:
        return True
    with file.open("rb") as stream:
        beginning = stream.read(LONGEST_BEGINNING)
    if ending in UNREAD_ENDINGS or UNREAD_BEGINNING.match(beginning):
        raise UserError(f"{file}: a picture of a format that is not read (HEIF, JPEG XL); convert it to PNG or JPEG")
    return ending not in RAW_ENDINGS and BEGINNING.match(beginning) is not None


@contextmanager
def opened(file: Path) -> Iterator[Image.Image]:
    """Open a file by its content; only its head is read. Pillow's exceptions are raised as they are."""
    unmarked = UNMARKED.get(file.suffix.lower())
    with Image.open(file, formats=(*FORMATS, unmarked) if unmarked else FORMATS) as picture:
        # Pillow reads the high bytes of such pixels, and says so nowhere else.
        depths = [tile[3] for tile in picture.tile if picture.mode not in (*DEEP_MODES, "I")]
        picture.info["reduced"] = any(";16" in str(one) for one in depths) or (
            picture.format == "PPM" and any(isinstance(one, tuple) and one[1] > 255 for one in depths)
        )
        if "transparency" in picture.info and (picture.info["reduced"] or picture.mode in DEEP_MODES):
            raise UserError(f"{file}: 16 bits with one transparent colour; convert it to RGBA")
        yield picture


def decode(file: Path) -> Image.Image:
    """Decode the (first) picture of a file, turned upright as its EXIF data say."""
    with opened(file) as picture:
        picture.load()
        try:
            upright = ImageOps.exif_transpose(picture)
        except Exception:  # damaged EXIF data say nothing; Pillow raises what their decoding raises
            upright = picture.copy()
        if is_widened(picture):
            return Image.fromarray(np.asarray(upright).astype(np.uint16))
        return upright


def steps_of(mode: str, channels: int, file: Path) -> list[str]:
    """List what is lost when pixels of one of Pillow's modes are brought to 8-bit grey (channels 1) or RGB (3).

    Raises UserError with the file's name where they cannot be brought to eight bits.
    """
    deep, in_print = mode in DEEP_MODES, mode in PRINT_MODES
    if not (deep or in_print or mode in (*GREY_MODES, *COLOUR_MODES)):
        raise UserError(f"{file}: pixels of mode {mode}; allowed: grey, RGB, CMYK or a palette, of 8 or 16 bits")
    grey = mode in GREY_MODES or deep
    steps = ["16 bits"] if deep else [mode] if in_print else []
    if grey and channels == 3:
        steps.append("grey")
    if channels == 1 and not grey and mode not in PALETTE_MODES:
        steps.append("RGB")
    return steps


def check_head(file: Path, data: Data) -> str:
    """Check what a file's head says of its pixels, and return their mode; nothing is decoded.

    Raises:
        UserError: it cannot be read, converted, or brought to size under these settings.
    """
    with readable(file), opened(file) as picture:
        mode = "I;16" if is_widened(picture) else picture.mode
        if data.fit == "exact" and picture.size != (data.image_size, data.image_size):
            raise wrong_size(file, *picture.size, data)
        reduced = ["16 bits"] if picture.info["reduced"] else []
    refuse_steps(reduced + steps_of(mode, data.channels, file), data, file)
    return f"{mode} of 16 bits" if reduced else mode


def in_channels(picture: Image.Image, data: Data, file: Path) -> tuple[Image.Image, list[str]]:
    """Bring a picture to Pillow's mode L (data.channels 1) or RGB (3).

    Returns:
        The picture, and what was converted with loss.

    Raises:
        UserError: pixels that cannot be converted, or that are not to be, under `data.convert: false`.
    """
    steps = steps_of(picture.mode, data.channels, file)
    if picture.info.get("reduced"):
        steps.insert(0, "16 bits")
    if data.channels == 1 and picture.mode in PALETTE_MODES and not is_grey(picture.convert("RGB")):
        steps.append("RGB")
    if is_transparent(picture):
        steps.insert(0, "transparent")
    refuse_steps(steps, data, file)
    return converted(picture, data.channels, data.background), steps


def refuse_steps(steps: list[str], data: Data, file: Path) -> None:
    """Raise UserError where something would be lost under `data.convert: false`."""
    if not steps or data.convert:
        return
    allowed = KINDS[data.channels]
    match steps[0]:
        case "transparent":
            why = "has transparent pixels, where data.convert: false allows none"
        case "grey" | "RGB":
            why = f"{steps[0]}, where data.channels: {data.channels} and convert: false allow {allowed} only"
        case step:
            why = f"{step}, where data.convert: false allows 8-bit {allowed} only"
    raise UserError(f"{file}: {why}; set data.convert: true, or convert the image")


def converted(picture: Image.Image, channels: int, background: tuple[int, int, int] = WHITE) -> Image.Image:
    """Convert a picture of any allowed mode to L (channels 1) or RGB (3); transparent pixels on a background."""
    if picture.mode in DEEP_MODES:
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("L" if channels == 1 else "RGB")
    if is_transparent(picture):
        whole = Image.new("RGBA", picture.size, (*background, 255))
        whole.alpha_composite(picture.convert("RGBA"))
        picture = whole
    if picture.mode in GREY_MODES:
        return picture.convert("L") if channels == 1 else picture.convert("L").convert("RGB")
    # By way of RGBA, where palettes with transparent entries keep their colours.
    colours = picture if picture.mode in PRINT_MODES else picture.convert("RGBA")
    return colours.convert("RGB") if channels == 3 else colours.convert("RGB").convert("L")


def is_widened(picture: Image.Image) -> bool:
    """Say whether Pillow has widened sixteen bits to 32, as it does for a PPM."""
    return picture.format == "PPM" and picture.mode == "I"


def is_transparent(picture: Image.Image) -> bool:
    """Say whether a decoded picture has a pixel that is not opaque."""
    if picture.mode in DEEP_MODES or not picture.has_transparency_data:
        return False
    return picture.convert("RGBA").getchannel("A").getextrema() != (255, 255)


def is_grey(picture: Image.Image) -> bool:
    """Say whether the three channels of an RGB picture are equal."""
    return picture.convert("L").convert("RGB").tobytes() == picture.tobytes()


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
