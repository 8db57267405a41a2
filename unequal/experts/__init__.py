"""Models for groups of timesteps: networks brought under a limit of FLOPs, and plans of experts."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic")
