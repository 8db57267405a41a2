"""Do small batches fail because one range of timesteps destroys another, and does a timestep sampler mend it?"""
