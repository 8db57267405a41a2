"""Experiments: variants × learning rates × seeds, declared in a folder and judged by one table."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "pydantic", "scipy", "yaml")
