"""Kinds of networks: how each is loaded, and what it is told. A kind is a module with `load`, named in FAMILIES."""
