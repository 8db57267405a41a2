"""What a stage asks of the recipe by which it trains."""

from typing import Literal, NamedTuple

from unequal.settings.recipe import Recipe, WarmStart


class Role(NamedTuple):
    """What a recipe is for: every params file says it of each of its recipes.

    Attributes:
        start: its training starts from fresh weights, or trains the base on.
        ranged: it trains on a range of timesteps, which the stage gives.
        mixed: its network has three heads.
        pruned: it may train on what pruning has left of the base, and that has no state of a training.
    """

    start: Literal["fresh", "base"]
    ranged: bool = False
    mixed: bool = False
    pruned: bool = False


FRESH = Role("fresh")
THREE_HEADS = Role("fresh", mixed=True)
CONTINUED = Role("base")
INSIDE_A_RANGE = Role("base", ranged=True)
PRUNED = Role("base", ranged=True, pruned=True)


def check_recipes(recipes: dict[str, Recipe], roles: dict[str, Role]) -> None:
    """Raise ValueError where a role's recipe is missing, a recipe has no role, or one does not fit its role."""
    for name in roles:
        if name not in recipes:
            raise ValueError(f"recipes: '{name}' is missing; needed: {', '.join(roles)}")
    for name in recipes:
        if name not in roles:
            raise ValueError(
                f"recipes: no stage trains by '{name}'; delete it, or name it where recipes are listed; "
                f"used: {', '.join(roles)}"
            )
    for name, role in roles.items():
        check_role(name, role, recipes)
        check_continuing(name, role, recipes[name])
        if (recipes[name].prediction == "mixed") != role.mixed:
            mixed = ", ".join(other for other in roles if roles[other].mixed) or "none of these recipes"
            raise ValueError(f"recipes.{name}.prediction: '{recipes[name].prediction}'; 'mixed' is for {mixed} alone")


def check_role(name: str, role: Role, recipes: dict[str, Recipe]) -> None:
    """Raise ValueError where a recipe's sampler or prediction does not fit its role."""
    recipe = recipes[name]
    if role.ranged == recipe.sampler.for_all:
        allowed = "only 'slot'" if role.ranged else "any but 'slot', which draws from the range that a stage gives"
        raise ValueError(f"recipes.{name}.sampler.density: '{recipe.sampler.density}'; allowed: {allowed}")
    if role.start == "fresh" and recipe.sampler.needs:
        raise ValueError(
            f"recipes.{name}.sampler.density: '{recipe.sampler.density}' needs the base's profile; "
            "recipes that start from nothing have none"
        )
    if role.start == "base" and "base" in recipes and recipe.prediction != recipes["base"].prediction:
        raise ValueError(
            f"recipes.{name}.prediction: '{recipe.prediction}'; it trains the base on, "
            f"whose prediction is '{recipes['base'].prediction}'"
        )


def check_continuing(name: str, role: Role, recipe: Recipe) -> None:
    """Raise ValueError where a recipe goes on from what its role does not have."""
    if role.start == "fresh" and "continuing" in recipe.model_fields_set:
        raise ValueError(f"recipes.{name}.continuing: has no meaning for a recipe that starts from fresh weights")
    if role.start == "fresh" and recipe.gradients is not None:
        raise ValueError(
            f"recipes.{name}.gradients: measured of a model that is trained on; fresh weights tell nothing"
        )
    if role.pruned and recipe.continuing.needs_state:
        raise ValueError(
            f"recipes.{name}.continuing: {recipe.continuing}; it trains pruned networks too, which have only their "
            f"weights; allowed: {WarmStart()}"
        )
