"""The table of sources: each is a class by name."""

from unequal.data.arrays import Array, Cifar10
from unequal.data.embedded import Digits, Patches
from unequal.data.folders import Folder
from unequal.data.source import Source
from unequal.errors import UserError, one_line
from unequal.settings.data import Data

#: `data.source` → its class.
SOURCES: dict[str, type[Source]] = {
    "digits": Digits,
    "patches": Patches,
    "cifar10": Cifar10,
    "folder": Folder,
    "array": Array,
}


def source_class(data: Data) -> type[Source]:
    """The class of a source. Raises UserError for settings that it cannot have; nothing is read."""
    if data.source not in SOURCES:
        raise UserError(f"data.source: '{data.source}'; allowed: {', '.join(SOURCES)}")
    source = SOURCES[data.source]
    if source.needs_path != (data.path is not None):
        without = ", ".join(name for name, one in SOURCES.items() if not one.needs_path)
        problem = (
            f"needs a path; allowed without one: {without}" if source.needs_path else "has no path; set it to null"
        )
        raise UserError(f"data.path: source '{data.source}' {problem}")
    source.check(data)
    return source


def open_source(data: Data) -> Source:
    """The source that the settings name.

    Raises UserError, for what the file system refuses too (a name that is too long).
    """
    try:
        return source_class(data)(data)
    except OSError as error:
        raise UserError(f"data.path: {data.path}: {one_line(error)}") from None
