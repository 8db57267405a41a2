"""Stages: one thin program each, started by dvc.yaml, in terms of the library and of this folder."""
