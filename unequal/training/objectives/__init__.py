"""Losses of one head or three, with a learned variance, with a condition, with weights."""
