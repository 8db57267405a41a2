"""Sources outside the project that shape results, as one small file for each key of params.yaml that names one.

The stage `code` of every dvc.yaml writes these files, and the stages that read a source depend on its file. It holds
a hash of the source's content (of a folder, with the relative paths) and of the settings next to its key, but no path:
what is moved is the same. For a model on the Hub the commit suffices, and null means that the key names nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unequal.errors import UserError, UserErrors, one_line, say
from unequal.pipeline.digests import remembered
from unequal.runtime.files import content_hash, json_or_none, settings_hash, sync_json, write_json
from unequal.runtime.outside import expanded, located
from unequal.settings.strict import PARAMS, read_yaml
from unequal.settings.values import NAME

#: Where the files lie, below the folder of the dvc.yaml.
SOURCES = Path("artifacts/sources")
#: Keys that name sources; `*` stands for names that the user gives.
KEYS = (
    "data.path",
    "network.pretrained",
    "extractor.weights",
    "autoencoder.source",
    "pruning.*.replay",
    "plan.pruning.replay",
    "plans.*.pruning.replay",
)
#: Their last parts.
NAMING = frozenset(key.rpartition(".")[2] for key in KEYS)
USER_NAME = re.compile(f"{NAME}(/{NAME})?")


class KeyedSource(NamedTuple):
    """A key of params.yaml, the source that it names (None: nothing), and a hash of the settings next to the key."""

    key: str
    value: str | None
    settings: str | None = None


def sources(document: dict[str, Any]) -> dict[str, KeyedSource]:
    """Find all sources of a params file, by the names of their files: section, or section/name."""
    return {name: source for key in KEYS for name, source in found_at(document, *key.split("."))}


def found_at(document: dict[str, Any], section: str, *keys: str) -> Iterator[tuple[str, KeyedSource]]:
    """Find the sources at one of the keys; impossible names are left to the gate, which refuses them."""
    content = document.get(section)
    if not isinstance(content, dict):
        return
    if keys[0] != "*":
        yield section, source_at(content, section, *keys)
        return
    for name, entry in content.items():
        if USER_NAME.fullmatch(str(name)):
            yield f"{section}/{name}", source_at(entry, f"{section}.{name}", *keys[1:])


def source_at(content: Any, place: str, *keys: str) -> KeyedSource:
    """The source at keys below a section.

    Of a source that verifies its own files, as CIFAR-10, the content below its path does not count.
    """
    near = value_at(content, *keys[:-1])
    others = {key: value for key, value in near.items() if key != keys[-1]} if isinstance(near, dict) else near
    value = None if verifies_itself(content) else value_at(content, *keys)
    return KeyedSource(".".join((place, *keys)), value if isinstance(value, str) else None, settings_hash(others))


def verifies_itself(data: Any) -> bool:
    """Say whether a section names a source of images that verifies its own files."""
    if not isinstance(data, dict) or not isinstance(name := data.get("source"), str):
        return False
    from unequal.data.sources import SOURCES  # its imports take a while

    return name in SOURCES and not SOURCES[name].hashed


def value_at(content: Any, *keys: str, absent: Any = None) -> Any:
    """Return the value at keys of nested mappings, or `absent` where there is none."""
    for key in keys:
        content = content.get(key, absent) if isinstance(content, Mapping) else absent
    return content


def content_of(source: KeyedSource, folder: Path, params: Path = PARAMS) -> dict[str, str | None]:
    """Return the content of a source's file. Raises UserError where the source is missing or cannot be read."""
    settings, key = {"settings": source.settings}, f"{params}: {source.key}"
    if source.value is None:
        return settings | {"source": None}
    place = located(source.value, key, folder)
    if not isinstance(place, Path):
        return settings | {"source": source.value}
    try:
        return settings | {"sha256": remembered(place, content_hash)}
    except (OSError, UserError) as error:
        raise UserError(f"{key}: {one_line(error)}") from None


def check_sources(params: Path = PARAMS) -> None:
    """Raise UserErrors where a params file names missing sources; only the params file itself is read."""
    missing = list[str]()
    for source in sources(read_yaml(params)).values():
        try:
            if source.value is not None:
                located(source.value, f"{params}: {source.key}", params.parent)
        except UserError as error:
            missing.append(str(error))
    if missing:
        raise UserErrors(missing)


def write_sources(graph: Path) -> list[str]:
    """Bring `artifacts/sources` next to a dvc.yaml up to date; return a line for each file that has changed.

    Raises:
        UserError: the params file cannot be read, or names a missing source.
    """
    folder, params = graph.parent, graph.with_name(PARAMS.name)
    contents = {name: content_of(one, folder, params) for name, one in sources(read_yaml(params)).items()}
    return [f"{file}: {what}" for file, (what, _) in sync_json(folder / SOURCES, contents).items()]


def current_source(name: str) -> dict[str, str | None]:
    """Return what the file of a source should hold now."""
    return content_of(sources(read_yaml(PARAMS)).get(name, KeyedSource(name, None)), Path())


def source_file(name: str) -> Path:
    """Name the file of a source."""
    return SOURCES / f"{name}.json"


def refresh_source(name: str) -> None:
    """Bring the file of a source up to date, as it is when a stage starts that reads it."""
    file, content = source_file(name), current_source(name)
    if (known := json_or_none(file)) != content:
        if isinstance(known, dict) and without_settings(known) != without_settings(content):
            say(f"{file}: replaced since the engine began; this stage reads the source as it is now", err=True)
        write_json(file, content)


def without_settings(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a source's file says of the source alone."""
    return {key: value for key, value in content.items() if key != "settings"}


def without_paths(content: Any, document: dict[str, Any]) -> Any:
    """Return settings without the paths of sources on this machine: a hash of the content stands in their place.

    Args:
        content: settings, whole or in part.
        document: the params file that they are from.
    """
    paths: dict[str, str | None] = {}
    for name, source in sources(document).items():
        if source.value is not None and os.path.exists(path := expanded(source.value)):
            known = json_or_none(source_file(name))
            paths |= dict.fromkeys((source.value, path), known.get("sha256") if isinstance(known, dict) else None)
    data = document.get("data")
    if isinstance(data, dict) and verifies_itself(data):
        paths |= dict.fromkeys((str(data.get("path")), expanded(str(data.get("path")))))

    def replaced(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {inner: replaced(below, inner) for inner, below in value.items()}
        return paths.get(value, value) if isinstance(value, str) and key in NAMING else value

    return replaced(content, "")
