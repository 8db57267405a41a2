"""Which timestep sampler lets small batches train as large ones do?"""
