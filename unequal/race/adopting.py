"""Adoption of a race's recipe into params.yaml, whose comments are preserved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unequal.cli.editing import edited, in_a_line
from unequal.errors import UserError
from unequal.race.findings import Standing, chosen_sampling, measured_slots, recipe_document, seconds_of
from unequal.race.results import read_done
from unequal.race.run import last_standing, race_of, read_raced
from unequal.runtime.files import write_bytes
from unequal.settings.recipe import Recipe
from unequal.settings.strict import PARAMS, Strict, read_yaml

#: The recipe whose model other recipes train further.
BASE = "base"
#: Keys of a recipe that a race decides.
DECIDED = ("prediction", "sampler", "loss_weight", "average")


def standing_of(folder: Path) -> Standing:
    """Read the race of a folder, up to its last judged rung. Raises UserError where no rung is judged."""
    path = last_standing(folder)
    race, done = race_of(folder), read_done(path)
    seconds = seconds_of(race, done, folder / "results/race/trainings", folder / "results/race/seconds")
    ended, slots = read_yaml(path)["next"] is None, measured_slots(race, folder)
    return Standing(race, done, ended, seconds, chosen_sampling(race, done, folder), slots)


def adopted(folder: Path, recipe: str) -> tuple[str, list[str]]:
    """Text of params.yaml with the best bet written into a recipe, and the keys that change.

    Args:
        folder: folder that holds params.yaml.
        recipe: name of the recipe that takes the race's decisions; its images and warm-up do not change.

    Raises:
        UserError: there is no such recipe, the best bet is a set of experts, or no whole training is judged yet.
    """
    standing, params = standing_of(folder), read_raced(folder)
    if not standing.has_whole:
        raise UserError(f"{folder}: only short trainings are judged yet; run `unequal race run` on")
    if standing.race.arms[standing.bet.arm].experts is not None:
        raise UserError(
            f"{folder}: the best bet is a set of experts; paste the sections of {folder / 'results/race/recipe.yaml'}"
        )
    if recipe not in params.recipes and params.recipes:
        raise UserError(f"--recipe: '{recipe}'; {folder / PARAMS} has: {', '.join(params.recipes)}")
    bet, sampling = standing.recipe, standing.race.samplings[standing.sampling]
    change = differing(params.sampling, sampling, "sampling")
    if (own := params.recipes.get(recipe)) is None:
        change[f"recipes.{recipe}"] = in_a_line(recipe_document(standing)["recipes"]["base"])
    else:
        decided = differing(own, bet, f"recipes.{recipe}").items()
        change |= {key: value for key, value in decided if key.rpartition(".")[2] in DECIDED}
        change |= following(params.recipes, recipe, bet.prediction)
        # The warm-up belongs to the recipe's own length, so it does not change.
        lengths = {"warmup_images": own.optimizer.warmup_images}
        optimizer = bet.optimizer.model_copy(update=lengths)
        change |= differing(own.optimizer, optimizer, f"recipes.{recipe}.optimizer")
    return edited(folder / PARAMS, change), list(change)


def following(recipes: Mapping[str, Recipe], recipe: str, prediction: str) -> dict[str, Any]:
    """Changes of the recipes that train the base further, which must predict what the base predicts."""
    before = recipes[recipe].prediction
    if recipe != BASE or prediction == before:
        return {}
    others = (name for name, one in recipes.items() if name != recipe and one.prediction == before)
    return {f"recipes.{name}.prediction": prediction for name in others}


def differing(now: Strict, chosen: Strict, place: str) -> dict[str, Any]:
    """Dotted keys at which a section differs from a chosen one, with the chosen values."""
    names = [name for name in type(chosen).model_fields if getattr(chosen, name) != getattr(now, name, None)]
    return {f"{place}.{name}": in_a_line(plain(getattr(chosen, name))) for name in names}


def plain(value: Any) -> Any:
    """Convert a setting to plain values for a file."""
    if isinstance(value, Strict):
        return value.model_dump(mode="json", exclude_defaults=True)
    return list(value) if isinstance(value, tuple) else value


def adopt_into(folder: Path, recipe: str) -> list[str]:
    """Write the best bet into params.yaml; return the keys that change.

    Raises:
        UserError: the file would not be valid; it is restored.
    """
    text, keys = adopted(folder, recipe)
    path = folder / PARAMS
    before = path.read_bytes()
    if not keys:
        return []
    write_bytes(path, text.encode())
    try:
        read_raced(folder)
    except UserError:
        write_bytes(path, before)
        raise
    return keys
