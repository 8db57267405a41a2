"""Bringing a network under a limit of FLOPs by removing whole channels."""

from unequal.extras import needs

needs(__name__, "pipeline", "pydantic")
