"""A params file of a race without the pipeline."""

from unequal.settings.core import FRESH, Role
from unequal.settings.params import Raced


class RaceParams(Raced):
    """Sections of a race: those that a training and its score need."""

    @property
    def roles(self) -> dict[str, Role]:
        """Recipes that a race may change, or that it has made."""
        return dict.fromkeys(self.recipes, FRESH)
