"""The one training loop and its parts: batches, objective, averaging, checkpoints."""

from unequal.errors import needs

needs(__name__, "pipeline", "accelerate", "safetensors", "tqdm")
