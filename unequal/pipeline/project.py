"""Where the project lies, also when a stage runs in a study's folder or in DVC's copy of the project."""

from pathlib import Path

from unequal.settings.strict import STUDIES

#: `dvc exp run --temp` and `--queue` check the project out into a folder below this one, run the
#: stages there and delete it afterwards.
DVC_COPIES = (".dvc", "tmp", "exps")


def study() -> str | None:
    """The study whose folder is the working directory; None: the pipeline itself."""
    here = Path.cwd()
    return here.name if here.parent.name == STUDIES else None


def project_root() -> Path:
    """The folder that keeps what outlives a run: mlflow.db, mlartifacts/ and work/.

    It is the working directory, or the project to which a study belongs, or, in one of DVC's
    copies, the project that was copied.
    """
    here = Path.cwd()
    parts = here.parts
    for start in range(len(parts) - len(DVC_COPIES)):
        if parts[start : start + len(DVC_COPIES)] == DVC_COPIES:
            return Path(*parts[:start])
    return here if study() is None else here.parents[1]


def work_root() -> Path:
    """The folder of all resumable states, which no stage declares and git ignores."""
    return project_root() / "work"
