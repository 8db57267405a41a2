"""From noise to images: which network is asked at which timestep, and what it is told."""

from unequal.errors import needs

needs(__name__, "pipeline", "tqdm")
