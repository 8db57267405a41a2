"""Folders of diffusers' pipelines, and pipelines on the Hub: their index, configurations and parts.

Nothing is unpickled, and no code of theirs is run, whatever the version of diffusers: an index may name classes of
diffusers and transformers alone, and no library reads it. Weights are safetensors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from unequal.errors import UserError, first_line
from unequal.models.foreign import load_whole, quiet
from unequal.runtime.files import content_hash, read_json, settings_hash
from unequal.runtime.outside import HUB_ID

INDEX = "model_index.json"
#: How a part that a pipeline does without stands in its index.
NO_CLASS = (None, None)
#: Libraries that an index may name.
LIBRARIES = ("diffusers", "transformers")
#: Where diffusers has classes of its own pipelines, by whose names an index calls them.
PIPELINES = "diffusers.pipelines"


@dataclass(frozen=True)
class PipelineFolder:
    """A pipeline on this machine.

    Attributes:
        name: the folder as it was given, or owner/name@commit.
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
        hub = HUB_ID.fullmatch(source)
        if hub is None:
            raise UserError(
                f"{source}: no such folder; allowed: a folder of a diffusers pipeline, or a Hub id owner/name"
            )
        folder = downloaded(hub["id"], hub["revision"], source)
        return cls.at(folder, f"{hub['id']}@{folder.name}")

    @classmethod
    def at(cls, path: Path, name: str) -> "PipelineFolder":
        """The pipeline in a folder. Raises UserError where there is none."""
        if not (path / INDEX).is_file():
            raise UserError(f"{name}: no diffusion pipeline: it has no {INDEX}; allowed: a folder that diffusers saved")
        index = read_json(path / INDEX)
        if not isinstance(index, dict) or not isinstance(index.get("_class_name"), str):
            raise UserError(f"{name}: no diffusion pipeline: its {INDEX} names no class of diffusers")
        check_index(index, name)
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
        choices: dict[str, Any] = {"dtype" if kind.__module__.startswith("transformers.") else "torch_dtype": dtype}
        with quiet(transformers=True):
            net = load_whole(
                kind,
                str(self.path),
                f"{self.name}: {part}",
                subfolder=part,
                local_files_only=True,
                **choices,
            )
        return net.eval().requires_grad_(False)

    def part_class(self, part: str) -> type[Any]:
        """The class of a part, of diffusers or transformers. Raises UserError where there is none of that name."""
        library, name = self.index[part]
        kind = getattr(import_module(library), name, None) if library in LIBRARIES else None
        if not isinstance(kind, type):
            raise UserError(f"{self.name}: {INDEX}: {part}: no class '{name}' in '{library}'")
        return kind

    def other_part(self, part: str) -> Any:
        """A part without weights, a tokenizer or a scheduler."""
        with errors_in_one_line(f"{self.name}: {part}"):
            return self.part_class(part).from_pretrained(str(self.path / part), local_files_only=True)

    def refuse_inside(self, out: Path) -> None:
        """Raise UserError where results would lie in the folder of a part, and change its content."""
        for part in self.parts:
            if out.resolve().is_relative_to((self.path / part).resolve()):
                raise UserError(f"--out {out}: inside the folder of {self.name}'s {part}; name a folder elsewhere")

    def fingerprint(self) -> str:
        """A hash of the index and of the content of all parts; whatever else lies in the folder does not count."""
        parts = {part: content_hash(self.path / part) for part in self.parts if (self.path / part).exists()}
        return settings_hash([self.index, parts])


def check_index(index: dict[str, Any], name: str) -> None:
    """Raise UserError where an index names another library: diffusers may take it for a file of the folder to run."""
    for part, value in index.items():
        if not isinstance(value, list) or not value or (library := value[0]) is None or library in LIBRARIES:
            continue
        # Or it names a package of diffusers' own pipelines.
        if not isinstance(library, str) or not library.isidentifier() or find_spec(f"{PIPELINES}.{library}") is None:
            raise UserError(f"{name}: {INDEX}: {part}: {library!r}; allowed: {', '.join(LIBRARIES)}")


def downloaded(owner_and_name: str, revision: str | None, source: str) -> Path:
    """The Hub's snapshot on this machine, brought here where it is not. Raises UserError."""
    with errors_in_one_line(f"{source}: no such folder, and none from the Hub"):
        # Its class comes with others that warn of what they miss.
        from diffusers import DiffusionPipeline
        from huggingface_hub import hf_hub_download

        try:
            index = read_json(Path(hf_hub_download(owner_and_name, INDEX, revision=revision)))
            check_index(index if isinstance(index, dict) else {}, source)
            return Path(DiffusionPipeline.download(owner_and_name, revision=revision, use_safetensors=True))
        except OSError as error:  # what it says at last is of this machine's cache, its cause what the Hub said
            raise (error.__cause__ or error) from None


@contextmanager
def errors_in_one_line(place: str) -> Iterator[None]:
    """Have whatever a library raises end in one line, and keep its log, warnings and bars back."""
    with quiet(transformers=True):
        try:
            yield
        except UserError:
            raise
        except Exception as error:  # of what is no network, diffusers, transformers and PyTorch say so in many ways
            raise UserError(f"{place}: {first_line(error)}") from None
