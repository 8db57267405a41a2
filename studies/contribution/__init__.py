"""Which timesteps spoil the colours of enlarged images, and does the prediction matter?"""
