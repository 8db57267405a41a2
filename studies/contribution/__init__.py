"""Contribution of timesteps to an enlarged image (paper 1, Figs. 3 and 4)."""
