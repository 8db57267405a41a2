"""Saved states of work that is resumed: each has a digest, by which a file that was altered since is detected.

Tensors and facts are a safetensors file, with facts and digest in its metadata, written whole. A state that cannot be
read as it was written counts as damaged, and its work is done again. Facts alone are JSON: `files.write_facts`.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, uint8

from unequal.errors import UserError, needs
from unequal.runtime.files import DIGEST, FACTS, settle, sync

needs(__name__, "pipeline", "safetensors")
from safetensors import SafetensorError, safe_open  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

#: Entry of a file's metadata; it holds facts and digest.
SAVED = "saved"


@dataclass(frozen=True)
class Saved:
    """Named tensors, and facts that JSON can hold."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def digest_of(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Content hash of named tensors and of facts as text; safetensors itself has none."""
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().contiguous().flatten().view(uint8).numpy().data)
    return digest.hexdigest()


def write_saved(path: Path, saved: Saved) -> None:
    """Write a state, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in saved.tensors.items()}
    facts = json.dumps(saved.facts)
    # Always the same name: a later process overwrites the file that a killed one has left.
    temporary = path.with_name(f".{path.name}.new")
    try:
        # One entry: safetensors writes several in any order, and equal states have equal bytes.
        metadata = {SAVED: json.dumps({FACTS: facts, DIGEST: digest_of(tensors, facts)})}
        save_file(tensors, temporary, metadata=metadata)
        settle(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def read_saved(path: Path, remedy: str = "delete it to start again") -> Saved:
    """Read a state. Raises UserError, which names the remedy, where it is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get(SAVED, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:  # RuntimeError: it is gone while it is opened
        raise UserError(f"{path}: cut short or altered ({error}); {remedy}") from None
    if digest_of(tensors, metadata.get(FACTS, "")) != metadata.get(DIGEST):
        raise UserError(f"{path}: altered since it was saved; {remedy}")
    return Saved(tensors, json.loads(metadata[FACTS]))


def saved_or_none(path: Path) -> Saved | None:
    """Read a state; None where it is missing or damaged."""
    try:
        return read_saved(path)
    except UserError:
        return None
