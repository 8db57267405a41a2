"""Scoring samples: the features that FID compares, and the scores."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "safetensors", "torch_fidelity", "tqdm")
