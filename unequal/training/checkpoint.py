"""Resumable states: a safetensors file, written whole, checked when read, and the one before it.

A write that power cuts short leaves the file of before; one that a disk spoils later is noticed by
its digest, and the state before it is taken up.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, uint8

from unequal.errors import UserError
from unequal.files import sync

FACTS, DIGEST = "facts", "digest"


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors, and what JSON can carry beside them."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under names that start with a prefix."""
    return {prefix + name: value for name, value in tensors.items()}


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors whose name starts with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def digest_of(tensors: dict[str, Tensor], facts: str) -> str:
    """Content hash of named tensors in host memory and of the facts; safetensors itself has none."""
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().contiguous().flatten().view(uint8).numpy().data)
    return digest.hexdigest()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Make this the state at `path`, at once; the one that stood there is kept beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    facts = json.dumps(checkpoint.facts)
    metadata = {FACTS: facts, DIGEST: digest_of(tensors, facts)}
    # One name for all: what a killed process has left of it is written over.
    temporary = path.with_name(f".{path.name}.new")
    try:
        save_file(tensors, temporary, metadata=metadata)
        sync(temporary)
        if path.exists():
            os.replace(path, before(path))
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The state at `path`, or the one before it where that is damaged; None if there is none.

    Raises:
        UserError: both are damaged.
    """
    standing = [one for one in (path, before(path)) if one.exists()]
    for one in standing:
        try:
            return read_whole(one)
        except UserError:
            if one == standing[-1]:
                raise
    return None


def read_whole(path: Path, remedy: str = "delete it to start again") -> Checkpoint:
    """The state in a file. Raises UserError, which names the remedy, where it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cut short or altered ({error}); {remedy}") from None
    if digest_of(tensors, metadata.get(FACTS, "")) != metadata.get(DIGEST):
        raise UserError(f"{path}: altered since it was saved; {remedy}")
    return Checkpoint(tensors, json.loads(metadata[FACTS]))


def before(path: Path) -> Path:
    """Where the state before the last one is kept."""
    return path.with_name(f"before-{path.name}")
