"""Comparisons of variants in blocks of trainings; a pilot estimates which differences they can detect."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "matplotlib", "pydantic", "scipy", "yaml")
