"""Do experts for groups of timesteps pay, against one model trained on at the same price?"""
