"""Scoring samples: the features that FID compares, and the scores."""
