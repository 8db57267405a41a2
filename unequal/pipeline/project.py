"""Where the project lies, also when a stage runs in a study's folder or in DVC's copy of the project."""

from pathlib import Path

#: What lies in a project's folder and in none below it; its clone may have any name.
MARK = ".dvc"
#: `dvc exp run --temp` and `--queue` check the project out into a folder below this one, run the
#: stages there and delete it afterwards.
DVC_COPIES = (".dvc", "tmp", "exps")


def checkout(here: Path) -> Path:
    """The project, or DVC's copy of one, in which a folder lies; that folder itself where it lies in none."""
    return next((folder for folder in (here, *here.parents) if (folder / MARK).is_dir()), here)


def study() -> str | None:
    """The study in whose folder the working directory lies, as its path below `studies`; None: in none."""
    here = Path.cwd()
    return "/".join(here.relative_to(checkout(here)).parts[1:]) or None


def project_root() -> Path:
    """The folder that keeps what outlives a run: mlflow.db, mlartifacts/ and work/.

    It is the checkout, or, where that is one of DVC's copies, the project that was copied.
    """
    here = checkout(Path.cwd())
    parts = here.parts
    for start in range(len(parts) - len(DVC_COPIES)):
        if parts[start : start + len(DVC_COPIES)] == DVC_COPIES:
            return Path(*parts[:start])
    return here


def work_root() -> Path:
    """The folder of all resumable states, which no stage declares and git ignores."""
    return project_root() / "work"
