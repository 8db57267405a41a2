"""Where things lie: the project's code, the folder of a run, and what outlives a run there."""

from pathlib import Path

#: The project whose code runs; it may be a copy that DVC has made.
ROOT = Path(__file__).parents[2]
#: `dvc exp run --temp` and `--queue` check the project out into a folder below this one, without untracked files.
DVC_COPIES = (".dvc", "tmp", "exps")


def home() -> Path:
    """Return the working directory; of one in DVC's copy of a project, the same folder in the project."""
    here = Path.cwd()
    for start in range(len(here.parts) - len(DVC_COPIES)):
        if here.parts[start : start + len(DVC_COPIES)] == DVC_COPIES:
            copy = next(
                folder for folder in (here, *here.parents) if (folder / ".dvc").is_dir() or folder.parent == folder
            )
            return Path(*here.parts[:start]) / (here.relative_to(copy) if copy != Path("/") else "")
    return here


def work_root() -> Path:
    """Return the folder of all resumable states, which no stage declares and git ignores."""
    return home() / "work"
