"""A params file of a race without the pipeline."""

from unequal.settings.params import Raced


class RaceParams(Raced):
    """Sections of a race: those that a training and its score need."""
