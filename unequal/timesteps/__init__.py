"""Which timesteps are trained on, how often and with what weight."""
