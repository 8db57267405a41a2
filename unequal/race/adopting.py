"""The recipe of a race written into params.yaml, with its comments kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unequal.errors import UserError
from unequal.race.editing import edited, in_a_line, write
from unequal.race.findings import Standing, chosen_sampling, measured_slots, recipe_document, seconds_of
from unequal.race.results import read_done
from unequal.race.run import last_standing, race_of, read_raced
from unequal.settings.recipe import Recipe
from unequal.settings.strict import PARAMS, Strict, read_yaml

#: The recipe that others train on.
BASE = "base"
#: Keys of a recipe that a race decides.
DECIDED = ("prediction", "sampler", "loss_weight", "conflicts", "average")


def standing_of(folder: Path) -> Standing:
    """The race of a folder as far as it is judged. Raises UserError where nothing is."""
    path = last_standing(folder)
    race, done = race_of(folder), read_done(path)
    seconds = seconds_of(race, done, folder / "results/race/trainings", folder / "results/race/seconds")
    ended, slots = read_yaml(path)["next"] is None, measured_slots(race, folder)
    return Standing(race, done, ended, seconds, chosen_sampling(race, done, folder), slots)


def adopted(folder: Path, recipe: str) -> tuple[str, list[str]]:
    """The text of params.yaml with the best bet in a recipe, and the keys that differ.

    Args:
        folder: it holds params.yaml.
        recipe: name of the recipe that takes what the race has decided; its images and warm-up stay.

    Raises:
        UserError: there is no such recipe, or the race has not trained whole.
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
        change |= {key: value for key, value in differing(own, bet, f"recipes.{recipe}").items() if decided(key)}
        change |= following(params.recipes, recipe, bet.prediction)
        # The warm-up stays with the recipe's own length.
        lengths = {"warmup_images": own.optimizer.warmup_images}
        optimizer = bet.optimizer.model_copy(update=lengths)
        change |= differing(own.optimizer, optimizer, f"recipes.{recipe}.optimizer")
    return edited(folder / PARAMS, change), list(change)


def following(recipes: Mapping[str, Recipe], recipe: str, prediction: str) -> dict[str, Any]:
    """Keys of the recipes that train the base on, where it comes to predict something else, as they must."""
    before = recipes[recipe].prediction
    if recipe != BASE or prediction == before:
        return {}
    others = (name for name, one in recipes.items() if name != recipe and one.prediction == before)
    return {f"recipes.{name}.prediction": prediction for name in others}


def decided(key: str) -> bool:
    """Say whether a race decides a key of a recipe."""
    return key.rpartition(".")[2] in DECIDED


def differing(now: Strict, chosen: Strict, place: str) -> dict[str, Any]:
    """Dotted keys in which a section differs from a chosen one, with the chosen values."""
    names = [name for name in type(chosen).model_fields if getattr(chosen, name) != getattr(now, name, None)]
    return {f"{place}.{name}": in_a_line(plain(getattr(chosen, name))) for name in names}


def plain(value: Any) -> Any:
    """A setting as it stands in a file."""
    if isinstance(value, Strict):
        return value.model_dump(mode="json", exclude_defaults=True)
    return list(value) if isinstance(value, tuple) else value


def adopt_into(folder: Path, recipe: str) -> list[str]:
    """Write the best bet into params.yaml; return the keys that have changed.

    Raises:
        UserError: the file would not be sound; it is left as it was.
    """
    text, keys = adopted(folder, recipe)
    path = folder / PARAMS
    before = path.read_text(encoding="utf-8")
    if not keys:
        return []
    write(path, text)
    try:
        read_raced(folder)
    except UserError:
        write(path, before)
        raise
    return keys
