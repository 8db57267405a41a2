"""Diffusion in latents: where its losses lie, and whether experts for groups of timesteps pay there."""
