"""Races of recipes within a budget: rungs of trainings that have ended, one claim on fresh seeds."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "matplotlib", "pydantic", "ruamel", "scipy", "yaml")
