"""Params file of a race without the pipeline."""

from pathlib import Path

from unequal.settings.core import FRESH, Core, Role
from unequal.settings.params import Params, Raced
from unequal.settings.problems import read_whole
from unequal.settings.strict import PARAMS, read_yaml

#: Sections of the pipeline's file that a race does not need.
FURTHER = frozenset(Params.model_fields) - frozenset(Raced.model_fields)


class RaceParams(Raced):
    """Sections of a race: those that a training and its score need."""

    @classmethod
    def read(cls, path: Path = PARAMS) -> Core:  # type: ignore[override]
        """Read a race's file, or the pipeline's, which has further sections. Raises UserErrors."""
        return read_whole(cls if FURTHER.isdisjoint(read_yaml(path)) else Params, path)

    @property
    def roles(self) -> dict[str, Role]:
        """Recipes that a race may change or that it has written."""
        return dict.fromkeys(self.recipes, FRESH)
