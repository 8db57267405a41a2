"""Kinds of networks: what the library asks of one, which there are, and a package for each."""

from unequal.errors import needs

needs(__name__, "pipeline", "diffusers", "huggingface_hub")
