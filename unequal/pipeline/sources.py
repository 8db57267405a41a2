"""Sources outside the project that shape results, as one small file for each key of params.yaml that names one.

The stage `code` of every dvc.yaml writes these files, and the stages that read a source depend on its file. It holds
a hash of the source's content (of a folder, with the relative paths) and of the settings next to its key, but no path:
what is moved is the same. For a model on the Hub the commit suffices, and null means that the key names nothing. Sizes
and times of files only decide whether they are hashed again.
"""

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from unequal.errors import UserError, UserErrors, one_line
from unequal.pipeline.workdirs import work_root
from unequal.runtime.files import (
    content_hash,
    files_below,
    json_or_none,
    read_facts,
    read_json,
    settings_hash,
    sync_json,
    write_facts,
    write_json,
)
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
#: File of known hashes, in the folder of resumable states: path → its state, its hash.
KNOWN = "sources.json"
#: Bytes from which an input is large: its hash is remembered.
LARGE = 1 << 30
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
        yield section, KeyedSource(f"{section}.{'.'.join(keys)}", named(content, *keys), settings_near(content, *keys))
        return
    for name, entry in content.items():
        if USER_NAME.fullmatch(str(name)):
            key = f"{section}.{name}.{'.'.join(keys[1:])}"
            yield f"{section}/{name}", KeyedSource(key, named(entry, *keys[1:]), settings_near(entry, *keys[1:]))


def settings_near(content: Any, *keys: str) -> str:
    """Hash the settings of the section in which the last of these keys stands, but for its own."""
    section = value_at(content, *keys[:-1])
    return settings_hash({k: v for k, v in section.items() if k != keys[-1]} if isinstance(section, dict) else section)


def named(content: Any, *keys: str) -> str | None:
    """Return the text at keys below a section, if there is one.

    Of a source that verifies its own files, as CIFAR-10, the content below its path does not count.
    """
    value = None if verifies_itself(content) else value_at(content, *keys)
    return value if isinstance(value, str) else None


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


def content_of(source: KeyedSource, folder: Path) -> dict[str, str | None]:
    """Return the content of a source's file. Raises UserError where the source is missing or cannot be read."""
    settings = {"settings": source.settings}
    if source.value is None:
        return settings | {"source": None}
    place = located(source.value, source.key, folder)
    if not isinstance(place, Path):
        return settings | {"source": source.value}
    try:
        return settings | {"sha256": known_hash(place)}
    except (OSError, UserError) as error:
        raise UserError(f"{source.key}: {one_line(error)}") from None


def known_hash(path: Path) -> str:
    """Hash the content of a file or folder, again only where a size or a time has changed."""
    memory, name, now = work_root() / KNOWN, str(path.resolve()), state(path)
    known = read_facts(memory) or {}
    match known.get(name):
        case [known_state, str(sha256)] if known_state == now:
            return sha256
    sha256 = content_hash(path)
    write_facts(memory, known | {name: [now, sha256]})
    return sha256


def input_hash(path: Path) -> str:
    """Hash a stage's input: a large one once, for every stage and process that reads it."""
    large = sum(file.stat().st_size for file in files_below(path)) >= LARGE
    return known_hash(path) if large else content_hash(path)


def state(path: Path) -> str:
    """Hash the relative paths, sizes and times of all files; times of change reveal replaced files too."""
    digest = sha256()
    for file in files_below(path):
        status = file.stat()
        facts = (os.path.relpath(file, path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        digest.update(repr(facts).encode())
    return digest.hexdigest()


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
    keyed = {name: one._replace(key=f"{params}: {one.key}") for name, one in sources(read_yaml(params)).items()}
    changed = sync_json(folder / SOURCES, {name: content_of(source, folder) for name, source in keyed.items()})
    return [f"{file}: {what}" for file, (what, _) in changed.items()]


def refuse_other_source(name: str, by_engine: bool = True) -> Path:
    """Return the file of a source, which is written where it is missing.

    Args:
        name: of the source.
        by_engine: False for a stage that is started by hand: other settings are then written into the file.

    Raises:
        UserError: the source has another content, or its section other settings, than its file says.
    """
    file = SOURCES / f"{name}.json"
    source = sources(read_yaml(PARAMS)).get(name, KeyedSource(name, None))
    content = content_of(source._replace(key=f"{PARAMS}: {source.key}"), Path())
    known = read_json(file) if file.exists() else content
    if known == content | {"settings": known.get("settings")} and not (by_engine and known != content):
        if known != content or not file.exists():
            write_json(file, content)
        return file
    what = f"{source.key}: {source.value}: replaced"
    if known == content | {"settings": known.get("settings")}:
        what = f"{source.key.rpartition('.')[0]}: edited"
    raise UserError(
        f"{PARAMS}: {what} since the engine began ({file} describes another content); start the engine again, or "
        "`python -m unequal.pipeline.fingerprint`"
    )


def without_paths(content: Any, document: dict[str, Any]) -> Any:
    """Return settings without the paths of sources on this machine: a hash of the content stands in their place.

    Args:
        content: settings, whole or in part.
        document: the params file that they are from.
    """
    paths: dict[str, str | None] = {}
    for name, source in sources(document).items():
        if source.value is not None and os.path.exists(path := expanded(source.value)):
            known = json_or_none(SOURCES / f"{name}.json")
            paths |= dict.fromkeys((source.value, path), known.get("sha256") if isinstance(known, dict) else None)
    data = document.get("data")
    if isinstance(data, dict) and verifies_itself(data):
        paths |= dict.fromkeys((str(data.get("path")), expanded(str(data.get("path")))))

    def replaced(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {inner: replaced(below, inner) for inner, below in value.items()}
        return paths.get(value, value) if isinstance(value, str) and key in NAMING else value

    return replaced(content, "")
