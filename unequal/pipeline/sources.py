"""Sources outside the project that shape results, as one small file for each key of params.yaml that names one.

The stage `code` of every dvc.yaml writes these files, and the stages that read a source depend on its file. It holds
the source's name and a hash of its content (of a folder, with the relative paths); for a model on the Hub the commit
suffices, and null means that the key names nothing. Sizes and times of files only decide whether they are hashed again.
"""

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from unequal.errors import UserError, UserErrors, one_line
from unequal.files import content_hash, files_below, read_json, sync_json, write_json
from unequal.pipeline.workdirs import work_root
from unequal.saved import read_facts, write_facts
from unequal.settings.strict import PARAMS, read_yaml
from unequal.settings.values import NAME, located

#: Where the files lie, below the folder of the dvc.yaml.
SOURCES = Path("artifacts/sources")
#: Keys that name sources; `*` stands for names that the user gives.
KEYS = (
    "data.path",
    "network.pretrained",
    "extractor.weights",
    "autoencoder.source",
    "pruning.*.replay",
    "plans.*.pruning.replay",
)
#: File of known hashes, in the folder of resumable states: path → its state, its hash.
KNOWN = "sources.json"
USER_NAME = re.compile(f"{NAME}(/{NAME})?")


class KeyedSource(NamedTuple):
    """A key of params.yaml, and the source that it names; None: nothing."""

    key: str
    value: str | None


def sources(document: dict[str, Any]) -> dict[str, KeyedSource]:
    """Find all sources of a params file, by the names of their files: section, or section/name."""
    return {name: source for key in KEYS for name, source in found_at(document, *key.split("."))}


def found_at(document: dict[str, Any], section: str, *keys: str) -> Iterator[tuple[str, KeyedSource]]:
    """Find the sources at one of the keys; impossible names are left to the gate, which refuses them."""
    content = document.get(section)
    if not isinstance(content, dict):
        return
    if keys[0] != "*":
        yield section, KeyedSource(f"{section}.{'.'.join(keys)}", named(content, *keys))
        return
    for name, entry in content.items():
        if USER_NAME.fullmatch(str(name)):
            yield f"{section}/{name}", KeyedSource(f"{section}.{name}.{'.'.join(keys[1:])}", named(entry, *keys[1:]))


def named(content: Any, *keys: str) -> str | None:
    """Return the text at keys below a section, if there is one.

    CIFAR-10's folder may be empty before the download; torchvision checks the hashes of all files that it reads there.
    """
    if isinstance(content, dict) and content.get("source") == "cifar10":
        return None
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, str) else None


def content_of(source: KeyedSource, folder: Path) -> dict[str, str | None]:
    """Return the content of a source's file. Raises UserError where the source is missing or cannot be read."""
    if source.value is None:
        return {"source": None}
    place = located(source.value, source.key, folder)
    if not isinstance(place, Path):
        return {"source": source.value}
    try:
        return {"source": source.value, "sha256": known_hash(place)}
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
    keyed = {name: KeyedSource(f"{params}: {key}", value) for name, (key, value) in sources(read_yaml(params)).items()}
    changed = sync_json(folder / SOURCES, {name: content_of(source, folder) for name, source in keyed.items()})
    return [f"{file}: {what}" for file, (what, _) in changed.items()]


def refuse_other_source(name: str) -> Path:
    """Return the file of a source, which is written where it is missing.

    Raises:
        UserError: the source has another content than its file says.
    """
    file = SOURCES / f"{name}.json"
    source = sources(read_yaml(PARAMS)).get(name, KeyedSource(name, None))
    content = content_of(KeyedSource(f"{PARAMS}: {source.key}", source.value), Path())
    if not file.exists():
        write_json(file, content)
    elif read_json(file) != content:
        raise UserError(
            f"{PARAMS}: {source.key}: {source.value}: replaced since the engine began ({file} describes another "
            "content); start the engine again, or `python -m unequal.pipeline.fingerprint`"
        )
    return file
