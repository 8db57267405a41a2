"""The whole of the study's params.yaml."""

from unequal.comparison.params import Plans


class Params(Plans):
    """Every arm is a plan, carried out on the base of its block."""
