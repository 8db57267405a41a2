"""Stages of the study: its gate, the scores, what came first, that once more, and its page."""
