"""Digests of inputs and outputs, as dvc.lock has them, and what the stage that made a file recorded of it."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from unequal.errors import UserError
from unequal.pipeline.workdirs import finished_runs
from unequal.runtime.files import content_hash, files_below, read_facts, write_facts
from unequal.runtime.place import work_root
from unequal.settings.strict import read_yaml

#: File of known digests, in the folder of resumable states: path → its state, its digest.
KNOWN = "digests.json"
#: Bytes from which an input is large: its digest is remembered.
LARGE = 1 << 30
LOCK = Path("dvc.lock")
#: The stage behind all others, which DVC always runs; under Snakemake the main process does its work, and dvc.lock
#: does not hear of it.
ALWAYS = "code"


def digest_of(path: Path) -> str:
    """Return the MD5 of a file, or of a folder's list of names and MD5s: the `md5` of dvc.lock."""
    if not path.is_dir():
        return content_hash(path, "md5")
    files = {file.relative_to(path).as_posix(): file for file in files_below(path)}
    listed = [{"md5": content_hash(file, "md5"), "relpath": name} for name, file in sorted(files.items())]
    return hashlib.md5(json.dumps(listed, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


def input_digest(path: Path) -> str:
    """Return the digest of a stage's input; of a large one it is computed once for all stages and processes."""
    large = sum(file.stat().st_size for file in files_below(path)) >= LARGE
    return remembered(path, digest_of) if large else digest_of(path)


def remembered(path: Path, compute: Callable[[Path], str]) -> str:
    """Compute a digest again only where a size or a time has changed."""
    memory, name, now = work_root() / KNOWN, f"{compute.__name__} {path.resolve()}", state(path)
    known = read_facts(memory) or {}
    match known.get(name):
        case [known_state, str(known_digest)] if known_state == now:
            return known_digest
    computed = compute(path)
    write_facts(memory, known | {name: [now, computed]})
    return computed


def state(path: Path) -> str:
    """Hash the relative paths, sizes and times of all files; times of change reveal replaced files too."""
    digest = hashlib.sha256()
    for file in files_below(path):
        status = file.stat()
        facts = (os.path.relpath(file, path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        digest.update(repr(facts).encode())
    return digest.hexdigest()


def recorded_outputs() -> dict[Path, tuple[str, str]]:
    """Return the outputs of dvc.lock, and of finished runs that are not yet in it: path → digest, name of the stage."""
    entries = read_yaml(LOCK)["stages"] if LOCK.exists() else {}
    outputs = {Path(out["path"]): (out["md5"], name) for name, one in entries.items() if name != ALWAYS
               for out in one.get("outs", ()) if "md5" in out}  # fmt: skip
    for _, run in finished_runs():
        outputs |= {Path(path): (digest, run.stage) for path, digest in run.outputs.items()}
    return outputs


def check_made(path: Path, recorded: dict[Path, tuple[str, str]], known: str) -> None:
    """Raise UserError where an input, with this digest, is not what the stage that made it has recorded."""
    for output, (digest, stage) in recorded.items():
        if not (output.is_relative_to(path) or path.is_relative_to(output)) or not output.exists():
            continue
        if (known if output == path else input_digest(output)) != digest:
            delete = f"rm -r {output}" if output.is_dir() else f"rm {output}"
            raise UserError(f"{output}: altered since {stage} made it; `{delete}`, and the same command makes it again")
