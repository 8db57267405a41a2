"""Plans for experts of groups of timesteps that differ from paper 3's method in one choice each."""
