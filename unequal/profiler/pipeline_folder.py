"""Folders of diffusers' pipelines, and pipelines on the Hub: their index, configurations and parts.

Nothing is unpickled, and no code of theirs is run: classes are those of diffusers and transformers,
weights safetensors.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from diffusers.utils import logging
from safetensors import safe_open
from torch import nn

from unequal.errors import UserError, plain
from unequal.files import read_json, settings_hash
from unequal.models.weights import check_finite
from unequal.settings.values import HUB_ID

INDEX = "model_index.json"
#: How a part that a pipeline does without stands in its index.
NO_CLASS = (None, None)


@dataclass(frozen=True)
class PipelineFolder:
    """A pipeline on this machine.

    Attributes:
        name: the folder as it was given, or owner/name@commit.
        path: the folder.
        index: content of its model_index.json.
    """

    name: str
    path: Path
    index: dict[str, Any]

    @classmethod
    def find(cls, source: str) -> "PipelineFolder":
        """The pipeline of a folder, or of a Hub id, `owner/name` or `owner/name@revision`. Raises UserError."""
        path = Path(source)
        if path.exists():
            return cls.at(path, source)
        found = HUB_ID.fullmatch(source)
        if found is None:
            raise UserError(
                f"{source}: no such folder; allowed: a folder of a diffusers pipeline, or a Hub id owner/name"
            )
        folder = downloaded(found["id"], found["revision"], source)
        return cls.at(folder, f"{found['id']}@{folder.name}")

    @classmethod
    def at(cls, path: Path, name: str) -> "PipelineFolder":
        """The pipeline in a folder. Raises UserError where there is none."""
        if not (path / INDEX).is_file():
            raise UserError(f"{name}: no diffusion pipeline: it has no {INDEX}; allowed: a folder that diffusers saved")
        index = read_json(path / INDEX)
        if not isinstance(index, dict) or not isinstance(index.get("_class_name"), str):
            raise UserError(f"{name}: no diffusion pipeline: its {INDEX} names no class of diffusers")
        return cls(name, path, index)

    @property
    def parts(self) -> dict[str, str]:
        """Name of each part that is there → its class."""
        pairs = {name: value for name, value in self.index.items() if isinstance(value, list) and len(value) == 2}
        return {name: str(value[1]) for name, value in pairs.items() if tuple(value) != NO_CLASS}

    def config(self, part: str) -> dict[str, Any]:
        """Configuration of a part. Raises UserError where it is missing or damaged."""
        name = "scheduler_config.json" if part == "scheduler" else "config.json"
        path = self.path / part / name
        if not path.is_file():
            raise UserError(f"{self.name}: {part}/{name} is missing; its {INDEX} names a {part}")
        config = read_json(path)
        if not isinstance(config, dict):
            raise UserError(f"{path}: no configuration")
        return config

    def check_weights(self, part: str) -> None:
        """Raise UserError where a part has no weights that can be read without unpickling them, or not all bytes."""
        files = sorted((self.path / part).glob("*.safetensors"))
        if not files:
            raise UserError(f"{self.name}: {part} has no weights in safetensors; no others are read")
        for file in files:
            with errors_in_one_line(f"{self.name}: {part}/{file.name}"), safe_open(file, "pt"):
                pass  # its head says how long it must be

    def network(self, part: str, kind: type[Any], dtype: torch.dtype) -> nn.Module:
        """A network among the parts, on the CPU, to be asked only. Raises UserError where it is not whole."""
        with errors_in_one_line(f"{self.name}: {part}"):
            net, loading = kind.from_pretrained(
                str(self.path),
                subfolder=part,
                use_safetensors=True,
                torch_dtype=dtype,
                output_loading_info=True,
                local_files_only=True,
            )
        if missing := sorted(loading["missing_keys"]):
            raise UserError(f"{self.name}: {part}: lacks {len(missing)} weights of its network: '{missing[0]}'")
        check_finite(net.state_dict(), f"{self.name}: {part}")
        net.eval().requires_grad_(False)
        asked: nn.Module = net
        return asked

    def fingerprint(self, *parts: str) -> str:
        """A hash of the files of some parts, or of all: of their names, sizes and times, since weights may be large."""
        folders = [self.path / part for part in parts] or [self.path]
        return settings_hash([described(file, self.path) for one in folders for file in files_of(one)])


def files_of(folder: Path) -> list[Path]:
    """Files at any depth, in order. Links are followed: the Hub's snapshots are made of them."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def described(file: Path, base: Path) -> tuple[str, int, int]:
    """A file's name below a folder, its bytes, and when it was changed."""
    facts = file.stat()
    return file.relative_to(base).as_posix(), facts.st_size, facts.st_mtime_ns


def downloaded(owner_and_name: str, revision: str | None, source: str) -> Path:
    """The Hub's snapshot on this machine, brought here where it is not. Raises UserError."""
    with errors_in_one_line(f"{source}: no such folder, and none from the Hub"):
        # Its class comes with others that warn of what they miss.
        from diffusers import DiffusionPipeline

        try:
            return Path(DiffusionPipeline.download(owner_and_name, revision=revision, use_safetensors=True))
        except OSError as error:  # what it says at last is of this machine's cache, its cause what the Hub said
            raise (error.__cause__ or error) from None


@contextmanager
def errors_in_one_line(place: str) -> Iterator[None]:
    """Have whatever a library raises end in one line, and keep its log, warnings and bars back."""
    from transformers.utils import logging as of_transformers

    level, of_texts = logging.get_verbosity(), of_transformers.get_verbosity()
    logging.set_verbosity(CRITICAL)  # errors are logged and raised
    of_transformers.set_verbosity(CRITICAL)
    logging.disable_progress_bar()
    of_transformers.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UserError:
        raise
    except Exception as error:  # of what is no network, diffusers, transformers and PyTorch say so in many ways
        raise UserError(f"{place}: {gist(error)}") from None
    finally:
        logging.set_verbosity(level)
        of_transformers.set_verbosity(of_texts)


def gist(error: BaseException) -> str:
    """The first line of what an exception says, with the next one where it ends in a colon; else its kind."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return plain(" ".join(lines[: 2 if lines[0].endswith(":") else 1]))
