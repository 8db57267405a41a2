"""Resumable states: one safetensors file, written whole, checked when read."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, uint8

from unequal.errors import UserError

FACTS, DIGEST = "facts", "digest"


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors, and what JSON can carry beside them."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def digest_of(tensors: dict[str, Tensor], facts: str) -> str:
    """Content hash of named tensors in host memory and of the facts; safetensors itself has none."""
    digest = hashlib.blake2b(facts.encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().contiguous().flatten().view(uint8).numpy().data)
    return digest.hexdigest()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the state at `path` by this one, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    facts = json.dumps(checkpoint.facts)
    metadata = {FACTS: facts, DIGEST: digest_of(tensors, facts)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(tensors, temporary, metadata=metadata)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The state at `path`, None if there is none. Raises UserError where it is damaged."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cut short or altered ({error}); delete it to start again") from None
    if digest_of(tensors, metadata.get(FACTS, "")) != metadata.get(DIGEST):
        raise UserError(f"{path}: altered since it was saved; delete it to start again")
    return Checkpoint(tensors, json.loads(metadata[FACTS]))
