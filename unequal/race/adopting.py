"""The recipe of a race written into params.yaml, with its comments kept."""

from pathlib import Path
from typing import Any

from unequal.errors import UserError
from unequal.race.editing import edited, in_a_line, write
from unequal.race.findings import Standing, chosen_sampling, recipe_document, seconds_of
from unequal.race.results import read_done
from unequal.race.run import last_standing, race_of, read_raced
from unequal.settings.strict import PARAMS, read_yaml

#: Keys of a recipe that a race decides.
DECIDED = ("prediction", "sampler", "loss_weight", "conflicts", "average")


def standing_of(folder: Path) -> Standing:
    """The race of a folder as far as it is judged. Raises UserError where nothing is."""
    path = last_standing(folder)
    race, done = race_of(folder), read_done(path)
    seconds = seconds_of(race, done, folder / "results/race/trainings", folder / "results/race/seconds")
    return Standing(race, done, read_yaml(path)["next"] is None, seconds, chosen_sampling(race, done, folder))


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
    if recipe not in params.recipes and params.recipes:
        raise UserError(f"--recipe: '{recipe}'; {folder / PARAMS} has: {', '.join(params.recipes)}")
    document = recipe_document(standing)
    ours, sampling = document["recipes"]["base"], document["sampling"]
    change: dict[str, Any] = {}
    if params.recipes:
        change = {f"recipes.{recipe}.{key}": in_a_line(ours[key]) for key in DECIDED if key in ours}
        change[f"recipes.{recipe}.optimizer.lr"] = ours["optimizer"]["lr"]
    else:
        change = {f"recipes.{recipe}": in_a_line(ours)}
    change |= {f"sampling.{key}": in_a_line(value) for key, value in sampling.items()}
    now = read_yaml(folder / PARAMS)
    differing = {dotted: value for dotted, value in change.items() if at(now, dotted) != value}
    return edited(folder / PARAMS, differing), list(differing)


def at(document: Any, dotted: str) -> Any:
    """The value at a dotted key; None where there is none."""
    for part in dotted.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


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
