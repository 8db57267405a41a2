"""Experiments: variants × learning rates × seeds, declared in a folder and judged by one table."""
