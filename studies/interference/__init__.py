"""What training on some timesteps does to the others."""
