"""Files that are either whole or absent: atomic writing, checked reading, content hashes."""

import csv
import errno
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from unequal.errors import UserError

CHUNK_BYTES = 1 << 20
#: Folders that other programs make anywhere: thumbnails of a NAS, recycle bins, what file systems and archives leave.
FOREIGN_FOLDERS = frozenset(
    (
        "@eadir", "@tmp", "@recycle", "@recently-snapshot", "#recycle", "#snapshot", "$recycle.bin",
        "system volume information", "lost+found", "__macosx", "thumbnails", "network trash folder", "temporary items",
    )
)  # fmt: skip
#: Pattern of `content_hash`'s result; digests in shared files are checked by it, since they become names of files.
SHA256 = r"^[0-9a-f]{64}$"


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then move it into place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, file_mode())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@cache
def file_mode() -> int:
    """Return the mode of new files by the process's umask, which can only be read by setting it for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def settle(path: Path) -> None:
    """Give all files of a folder, or the file itself, the mode of new files, and flush them to the disk.

    Libraries write files that their owner alone may read, or copy modes.
    """
    for file in files_below(path):
        os.chmod(file, file_mode())
        sync(file)


def refuse_existing(target: Path) -> None:
    """Raise UserError where something stands at a path already."""
    if target.exists():
        raise UserError(f"{target}: exists already; name a new folder")


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Yield a place for a new folder, which appears at `target` whole, when the block has succeeded.

    Raises:
        UserError: something stands there already.
    """
    refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    place = target.with_name(f".{target.name}.new")
    remove(place)
    try:
        yield place
        settle(place)
        os.replace(place, target)
    except BaseException:
        remove(place)
        raise


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Any) -> None:
    """Write readable JSON. Raises ValueError for NaN and infinity."""
    write_bytes(path, json_bytes(content))


def json_bytes(content: Any) -> bytes:
    """Return readable JSON, as in a file. Raises ValueError for NaN and infinity."""
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """Read JSON. Raises UserError where the file is missing, cannot be read, is cut short or no JSON."""
    try:
        return json.loads(require(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also JSON with too long a number, or too deep
        raise UserError(f"{path}: not valid JSON ({error}); make it again") from None


def sync_json(folder: Path, contents: Mapping[str, Any]) -> dict[Path, tuple[str, Any]]:
    """Make a folder hold just these JSON files, by name; files with that content already stay untouched.

    Returns:
        Other files → `new`, `changed` or `deleted`, and their old content; None where it was no JSON.
    """
    changed: dict[Path, tuple[str, Any]] = {}
    files = {folder / f"{name}.json": content for name, content in contents.items()}
    for file, content in sorted(files.items()):
        old = json_or_none(file)
        if old != content:
            changed[file] = ("changed" if file.exists() else "new", old)
            write_json(file, content)
    for file in sorted(set(folder.rglob("*.json")) - set(files)):
        changed[file] = ("deleted", json_or_none(file))
        file.unlink()
    return changed


def json_or_none(path: Path) -> Any:
    """Read a JSON file; None where it is missing or no JSON."""
    try:
        return read_json(path)
    except UserError:
        return None


#: What a file of facts holds.
FACTS, DIGEST = "facts", "digest"


def write_facts(path: Path, facts: Any) -> None:
    """Write facts as JSON with a digest. Raises ValueError for NaN and infinity."""
    whole = json.loads(json.dumps(facts))
    write_json(path, {FACTS: whole, DIGEST: facts_digest(whole)})


def read_facts(path: Path) -> Any:
    """Read what `write_facts` has written; None where it is missing or damaged."""
    document = json_or_none(path)
    if not isinstance(document, dict) or document.keys() != {FACTS, DIGEST}:
        return None
    return document[FACTS] if facts_digest(document[FACTS]) == document[DIGEST] else None


def facts_digest(facts: Any) -> str:
    """Content hash of facts, independent of layout and order of keys."""
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_npz(path: Path, **arrays: np.ndarray) -> None:
    """Write named arrays, without pickled objects."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_bytes(path, content.getvalue())


def read_npz(path: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Read the named arrays of numbers. Raises UserError where the file or one of them is missing or damaged."""
    try:
        with np.load(require(path), allow_pickle=False) as archive:
            if missing := sorted(set(names) - set(archive.files)):
                raise UserError(f"{path}: no table '{missing[0]}' in it; make it again")
            tables = {name: archive[name] for name in names}
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path}: damaged ({error}); make it again") from None
    for name, table in tables.items():
        if not isinstance(table, np.ndarray) or table.dtype.kind not in "buif":
            raise UserError(f"{path}: table '{name}' holds no numbers; make it again")
    return tables


def require(path: Path) -> Path:
    """Return the path if it exists, else raise UserError saying how to make it."""
    if not path.exists():
        raise UserError(f"{path}: missing; an earlier stage makes it, `dvc repro` runs what is needed")
    return path


def files_below(path: Path, skipped: list[Path] | None = None) -> list[Path]:
    """List the files of a folder in a fixed order, without hidden ones (engines' time stamps), or the file itself.

    Args:
        path: a folder or a file.
        skipped: gets the folders that `walked` leaves out.
    """
    if not path.is_dir():
        return [path]
    return sorted(file for file in walked(path, skipped) if not file.name.startswith("."))


def is_foreign(name: str) -> bool:
    """Say whether a folder's name is that of another program's: hidden, or one of FOREIGN_FOLDERS."""
    return name.startswith(".") or name.casefold() in FOREIGN_FOLDERS


def walked(folder: Path, skipped: list[Path] | None = None) -> Iterator[Path]:
    """Yield all files of a folder at any depth, in no order; a linked folder's under the name of the link.

    Folders of other programs are left out (previews, bins, notes), and listed in `skipped`.

    Raises:
        UserError: a link leads nowhere (hidden ones may: editors lock so), or a folder is reached twice, so that its
            files would count twice.
        OSError: a folder cannot be read.
    """
    reached: dict[str, Path] = {}
    pending = [folder]
    while pending:
        here = pending.pop()
        first = reached.setdefault(os.path.realpath(here), here)
        if first is not here:
            raise UserError(f"{here}: the same folder as {first}, whose files would count twice; remove one of the two")
        for entry in sorted(os.scandir(here), key=lambda entry: entry.name):
            path = here / entry.name
            if entry.is_symlink() and not path.exists():
                if not entry.name.startswith("."):
                    raise UserError(f"{path}: a link that leads nowhere; mend it or remove it")
            elif entry.is_dir():
                if not is_foreign(entry.name):
                    pending.append(path)
                elif skipped is not None:
                    skipped.append(path)
            elif entry.is_file():
                yield path


def content_hash(path: Path, algorithm: str = "sha256") -> str:
    """Hash a file, or a folder's relative names and contents, as hex digits."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    for file in files_below(path):
        if path.is_dir():
            digest.update(os.fsencode(file.relative_to(path).as_posix()) + b"\0")  # names need not be UTF-8
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def code_hash(*folders: Path) -> str:
    """Hash the Python files below folders: what is computed by other code is computed again."""
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return hashlib.sha256("".join(file.read_text(encoding="utf-8") for file in files).encode()).hexdigest()


def settings_hash(content: Any) -> str:
    """Hash anything that JSON can carry, independent of the order of its keys, as hex digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def put_into_place(source: Path, target: Path) -> None:
    """Put a finished file or folder into a second place, replacing what stood there.

    It appears there whole, and then survives a power cut. Both places share the content on the disk where they lie in
    one file system with hard links; elsewhere it is copied.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new")
    remove(new)
    if source.is_dir():
        shutil.copytree(source, new, copy_function=link)
    else:
        link(source, new)
    for file in files_below(new):
        sync(file)
    remove(target)
    os.replace(new, target)
    sync(target.parent)


def link(source: str | Path, target: str | Path) -> None:
    """Make a hard link to a file, or a copy where that is impossible."""
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)


def remove(path: Path) -> None:
    """Delete a file, link or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the columns of the first row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, text.getvalue().encode())


def rounded(value: float) -> float:
    """Round to five significant digits: more than a measurement over draws has, and a third of the file."""
    return float(f"{value:.5g}")


#: Refusals of a disk that are no fault of the program, also where the error does not name the file.
STORAGE_ERRORS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES),
    *(errno.EIO, errno.ESTALE, errno.EFBIG, errno.EMFILE, errno.ENFILE),
)


def storage_refusal(error: Exception) -> str | None:
    """Say which path the disk refused, and why; None for any other error."""
    if isinstance(error, OSError) and error.errno and (error.filename or error.errno in STORAGE_ERRORS):
        return f"{error.filename or Path.cwd()}: {os.strerror(error.errno)}"
    # Libraries that write files by themselves wrap a full disk in errors of their own, and NumPy names no cause.
    full = os.strerror(errno.ENOSPC)
    if full in str(error) or shutil.disk_usage(Path.cwd()).free == 0:
        return f"{Path.cwd()}: {full}"
    return None
