"""Stages of the study: its gate and its page."""
