"""Replicas of the pipeline: the same graph with other seeds, and what all of them have come to."""
