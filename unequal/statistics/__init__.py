"""Statistics of comparisons: estimates with their errors, verdicts, and the smallest detectable effect."""

from unequal.errors import needs

needs(__name__, "pipeline", "scipy")
