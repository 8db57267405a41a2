"""What a computation is given by whoever runs it: its files, device and log, and chunks of what takes long."""

from unequal.extras import needs

needs(__name__, "pipeline", "tqdm")
