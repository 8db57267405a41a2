"""Stages of the study: its gate, what came first, that once more, and its page."""
