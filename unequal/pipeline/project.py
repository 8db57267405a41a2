"""Where the project lies, also when DVC runs a stage in a copy of it."""

from pathlib import Path

#: `dvc exp run --temp` and `--queue` check the project out into a folder below this one, run the
#: stages there and delete it afterwards.
DVC_COPIES = (".dvc", "tmp", "exps")


def project_root() -> Path:
    """The folder that keeps what outlives a run: mlflow.db, mlartifacts/ and work/.

    It is the working directory, or, in one of DVC's copies, the project that was copied.
    """
    here = Path.cwd()
    parts = here.parts
    for start in range(len(parts) - len(DVC_COPIES)):
        if parts[start : start + len(DVC_COPIES)] == DVC_COPIES:
            return Path(*parts[:start])
    return here


def work_root() -> Path:
    """The folder of all resumable states, which no stage declares and git ignores."""
    return project_root() / "work"
