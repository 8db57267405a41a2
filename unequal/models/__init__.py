"""Networks: built from settings, saved whole, counted in FLOPs, wrapped as denoisers."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "safetensors")
