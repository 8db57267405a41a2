"""Is training faster where timesteps come otherwise than uniformly, by curricula or a decay of the momentum?"""
