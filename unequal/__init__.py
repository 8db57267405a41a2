"""unequal: train diffusion models knowing that timesteps are not equal."""
