"""Stages of an experiment: thin programs that its graph starts and that call the library."""
