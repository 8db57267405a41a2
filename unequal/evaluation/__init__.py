"""Scoring samples: the features that FID compares, and the scores."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "safetensors", "scipy", "torch_fidelity", "tqdm")
