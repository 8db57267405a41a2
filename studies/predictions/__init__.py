"""ε, v and x0: alone, with losses of one size at all timesteps, and as three heads of one network."""
