"""Kinds of networks: what the library asks of one, which there are, and a package for each."""
