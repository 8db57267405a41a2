"""Stages of a comparison: thin programs that dvc.yaml starts and that call the library."""
