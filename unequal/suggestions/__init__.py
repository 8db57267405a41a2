"""What the losses of a model at its timesteps suggest for its training and sampling; torch and NumPy alone."""
