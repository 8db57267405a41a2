"""The whole of the study's params.yaml."""

from unequal.comparison.params import Recipes


class Params(Recipes):
    """Every arm is a recipe, carried out from the first weights of its block."""
