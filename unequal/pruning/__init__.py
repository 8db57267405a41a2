"""Bringing a network under a limit of FLOPs by removing whole channels."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic")
