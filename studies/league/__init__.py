"""Which density or weight of timesteps trains best?"""
