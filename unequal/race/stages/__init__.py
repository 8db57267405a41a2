"""Stages of a race: thin programs that call the library."""
