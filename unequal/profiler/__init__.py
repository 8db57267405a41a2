"""Models that were trained elsewhere: what they lose at each timestep, and what follows for their training."""

from unequal.errors import needs

needs(__name__, "profile", "click", "diffusers", "matplotlib", "PIL", "pydantic", "safetensors", "tqdm", "yaml")
