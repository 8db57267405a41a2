"""What a study has found out: estimates with their errors, words that say no more, and what a study can see at all."""

from unequal.errors import needs

needs(__name__, "pipeline", "scipy")
