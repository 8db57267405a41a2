"""Measuring models: losses by timestep, validation losses, and scores of samples by their features."""
