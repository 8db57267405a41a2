"""What two runs of a graph have made, compared file by file."""

import csv
import json
import re
from hashlib import file_digest
from pathlib import Path
from typing import Any

from unequal.files import content_hash, files_below
from unequal.tools.renames import new_path, with_new_keys

#: Fields of JSON and CSV files that differ from run to run: seconds and speeds.
UNCOMPARED = re.compile(r"(\w+_)?seconds|images_per_second")


def differences(before: Path, after: Path, outs: tuple[set[str], set[str]]) -> list[str]:
    """A line for each file that only one of two folders has, or that says something else there.

    Args:
        before, after: folders of a dvc.yaml; what lies in the first has the old names.
        outs: outputs of the stages in each.
    """
    old = {new_path(name): file for name, file in files_of(before, outs[0]).items()}
    new = files_of(after, outs[1])
    lines = [f"{name}: is made no longer" for name in old.keys() - new.keys()]
    lines += [f"{name}: was not made before" for name in new.keys() - old.keys()]
    both = old.keys() & new.keys()
    lines += [f"{name}: differs" for name in both if content(old[name], name) != content(new[name])]
    return sorted(lines)


def files_of(folder: Path, outs: set[str]) -> dict[str, Path]:
    """The files of outputs by their paths below a folder."""
    found = (file for out in outs if (folder / out).exists() for file in files_below(folder / out))
    return {file.relative_to(folder).as_posix(): file for file in found}


def content(file: Path, renamed: str | None = None) -> Any:
    """What is compared of a file; of one with old keys, which has a new name, under new keys."""
    if file.suffix == ".safetensors":
        return tensors_of(file)
    documents = documents_of(file)
    if documents is None:
        return content_hash(file)
    return [compared(one if renamed is None else with_new_keys(renamed, one)) for one in documents]


def tensors_of(file: Path) -> tuple[Any, str]:
    """What a file of tensors says, and a digest of the numbers; its metadata are written in any order."""
    with file.open("rb") as opened:
        head = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        return head, file_digest(opened, "sha256").hexdigest()


def documents_of(file: Path) -> list[Any] | None:
    """The JSON documents or rows of a file; None where it is of another kind."""
    text = file.read_text(encoding="utf-8") if file.suffix in {".json", ".jsonl", ".csv"} else ""
    match file.suffix:
        case ".json":
            return [json.loads(text)]
        case ".jsonl":
            return [json.loads(line) for line in text.splitlines()]
        case ".csv":
            return list(csv.DictReader(text.splitlines()))
        case _:
            return None


def compared(value: Any) -> Any:
    """A JSON value without what differs from run to run, and without nulls, which say what an absent key says."""
    if isinstance(value, dict):
        return {k: compared(v) for k, v in value.items() if v is not None and not UNCOMPARED.fullmatch(k)}
    return [compared(item) for item in value] if isinstance(value, list) else value
