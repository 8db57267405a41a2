"""Suggestions for training and sampling from a model's losses at its timesteps; torch and NumPy alone."""
