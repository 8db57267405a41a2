"""Kinds of networks: how each is loaded, and its input. A kind is a `Family`."""
