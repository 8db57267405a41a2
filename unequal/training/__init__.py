"""The one training loop and its parts: batches, objective, averaging, checkpoints."""
