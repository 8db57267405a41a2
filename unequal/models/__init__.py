"""Networks: built from settings, saved whole, counted in FLOPs, wrapped as denoisers."""

from unequal.extras import needs

needs(__name__, "pipeline", "pydantic", "safetensors")
