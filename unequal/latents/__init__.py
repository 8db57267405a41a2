"""The room of latents: autoencoders between images and what diffusion sees, their training, encoded data sets."""
