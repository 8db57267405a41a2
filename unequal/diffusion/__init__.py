"""The diffusion process: noise schedule, predictions, DDIM, the loss no network gets below."""
