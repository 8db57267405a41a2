"""Numbers that a trained network knows classes by: matched by name, or by names that are the numbers themselves."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from unequal.errors import UserError
from unequal.runtime.files import json_or_none, write_json

#: File of an exported model: number of a class → its name.
CLASSES = "classes.json"
#: Files that may name a model's classes, and the key that does; pipelines of DiT have it in their index.
PLACES = ((CLASSES, None), ("model.json", "classes"), ("model_index.json", "id2label"), ("config.json", "id2label"))
#: ImageNet's names in WordNet: sorted, they stand in the order of the numbers that all its models know.
WORDNET = re.compile(r"n\d{8}")
IMAGENET = 1000

#: Number of a class → its name, or several with commas between.
Known = Mapping[int, str]


def write_class_names(folder: Path, names: Sequence[str]) -> None:
    """Write the names of a model's classes next to it."""
    write_json(folder / CLASSES, {str(number): name for number, name in enumerate(names)})


def read_class_names(model: Path) -> Known | None:
    """Read the names of a model's classes from its folder; None where it names none."""
    for name, key in PLACES:
        content = json_or_none(model / name)
        if key is not None:
            content = content.get(key) if isinstance(content, dict) else None
        if isinstance(content, list):
            content = dict(enumerate(content))
        if isinstance(content, dict) and content and all(str(number).isdecimal() for number in content):
            return {int(number): str(label) for number, label in content.items()}
    return None


def class_numbers(names: Sequence[str], known: Known | None, classes: int, place: str) -> list[int]:
    """Find the number by which a network knows each class.

    Raises:
        UserError: the names do not say the numbers.
    """
    if all(name.isdecimal() for name in names):
        numbers = [int(name) for name in names]
        if wrong := [number for number in numbers if number >= classes]:
            raise UserError(f"{place}: class {wrong[0]}; the model knows classes 0 … {classes - 1}")
        return numbers
    if known is not None:
        return [number_of(name, known, place) for name in names]
    if classes == len(set(names)) == IMAGENET and all(WORDNET.fullmatch(name) for name in names):
        order = {name: number for number, name in enumerate(sorted(names))}
        return [order[name] for name in names]
    raise UserError(
        f"{place}: class '{names[0]}' has no number that the model says; name the subfolders by the model's numbers, "
        f"0 … {classes - 1}, or write {CLASSES} into the model's folder: number of each class → its name"
    )


def number_of(name: str, known: Known, place: str) -> int:
    """Find the number of one class by its name, whatever its case. Raises UserError where none or several have it."""
    # A label may be several names with commas between.
    fits = [
        number
        for number, label in known.items()
        if plain_name(name) in {plain_name(part) for part in (label, *label.split(","))}
    ]
    if len(fits) != 1:
        what = "is none" if not fits else f"is {len(fits)}"
        some = ", ".join(f"'{label}'" for label in list(known.values())[:3])
        raise UserError(f"{place}: class '{name}' {what} of the {len(known)} classes that the model names ({some}, …)")
    return fits[0]


def plain_name(name: str) -> str:
    """A name without case, with blanks for underscores."""
    return " ".join(name.casefold().replace("_", " ").split())
