"""Races of recipes within a budget: rungs of completed trainings, and one claim on fresh seeds."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "matplotlib", "pydantic", "scipy", "yaml")
