"""By which method should a base be pruned for each group of its timesteps (paper 3)?"""
