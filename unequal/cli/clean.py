"""List and delete work directories: states of stopped runs, and outputs that no engine has recorded yet."""

import shutil
import time
from pathlib import Path

from unequal.errors import say
from unequal.pipeline.workdirs import try_lock, work_root
from unequal.runtime.files import files_below

SECONDS_PER_DAY = 86_400


def size_and_age(folder: Path) -> tuple[int, float]:
    """Bytes that deleting a folder frees, and days since its last change; hard-linked files free nothing."""
    stats = [path.stat() for path in (folder, *files_below(folder))]
    changed = max(stat.st_mtime for stat in stats)
    return sum(stat.st_size for stat in stats[1:] if stat.st_nlink == 1), (time.time() - changed) / SECONDS_PER_DAY


def visit(folder: Path, delete: bool, older_than: float) -> int:
    """List or delete a locked work directory; return its bytes, or 0 if it is skipped."""
    if not folder.exists():  # its stage has just ended
        return 0
    size, age = size_and_age(folder)
    if age < older_than:
        return 0
    say(f"{size / 1e6:10.1f} MB  {age:6.1f} days  {folder.name}")
    if delete:
        shutil.rmtree(folder)
    return size


def visit_all(delete: bool, older_than: float) -> None:
    """List or delete work directories, except those that a running stage uses."""
    root = work_root()
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.exists() else []
    total = 0
    for folder in folders:
        with try_lock(folder) as free:
            if free:
                total += visit(folder, delete, older_than)
            else:
                say(f"{'in use':>26}  {folder.name}")
    say(f"{total / 1e6:10.1f} MB  {'deleted' if delete else 'in all; --delete deletes them'}")
