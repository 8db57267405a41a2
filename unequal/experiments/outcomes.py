"""Outcomes of trainings: chosen learning rates, and trainings that diverge, which do not end the experiment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from unequal.errors import Diverged, say
from unequal.runtime.files import read_json, write_json
from unequal.runtime.workspace import Workspace

#: File of a model folder that says that its training diverged.
DIVERGED = "diverged.json"


def chosen_factor(read: Callable[[str], Path], variant: str) -> float:
    """Factor of the learning rate that was chosen for a variant."""
    return float(read_json(read(f"artifacts/rates/{variant}.json"))["factor"])


@contextmanager
def divergence_recorded(workspace: Workspace, model: str, results: str) -> Iterator[None]:
    """Record a training that diverges as an outcome: in the folder of its model, and in its figures."""
    try:
        yield
    except Diverged as error:
        say(str(error), err=True)
        if workspace.leads:
            folder = workspace.output(model)
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / DIVERGED, {"error": str(error)})
            workspace.metrics(results, {"diverged": str(error)})


def has_diverged(model: Path) -> bool:
    """Say whether the training of a model folder diverged."""
    return (model / DIVERGED).exists()
