"""Stages of the study: its gate."""
