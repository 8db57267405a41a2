"""Models for groups of timesteps: plans, and how they are carried out."""
