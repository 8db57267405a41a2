"""Edits of a params file's text that preserve its comments: values, budgets, a flow, a method."""

import hashlib
import json
import re
from typing import Any, NamedTuple

#: Schema by which editors complete the file.
SCHEMA = "# yaml-language-server: $schema=params.schema.json"
#: Line that identifies a file which nobody has edited.
DIGEST = "# `unequal init` overwrites this file as long as nobody has edited it. Digest of what follows: "


class Method(NamedTuple):
    """Timesteps and loss weight of trainings on all timesteps, in YAML.

    Attributes:
        measured: change of a flow's FID relative to uniform timesteps, as text.
    """

    sampler: str
    loss_weight: str
    measured: str


METHODS = {
    "uniform": Method("{density: uniform}", "{kind: none}", "the baseline"),
    "min_snr": Method("{density: uniform}", "{kind: min_snr, gamma: 5.0}", "FID −25.5 %"),
    "logit_normal": Method("{density: logit_normal}", "{kind: none}", "FID −21.1 %"),
}


def replaced(text: str, section: str, key: str, value: Any) -> str:
    """Replace the value of a section's key in a params file's text; comments are preserved. Raises KeyError."""
    pattern = re.compile(rf"(^{section}:.*\n(?:[ #].*\n)*?  {key}: )([^#\n]*?)( *(?:#.*)?)$", re.MULTILINE)
    new, count = pattern.subn(
        lambda match: f"{match[1]}{json.dumps(value, ensure_ascii=False)}{match[3]}", text, count=1
    )
    if not count:
        raise KeyError(f"{section}.{key}")
    return new


def recipes_of(text: str) -> tuple[int, int]:
    """Offsets of the beginning and end of the section `recipes`."""
    return text.index("\nrecipes:"), text.index("\nfinetune_recipes:")


def as_flow(text: str) -> str:
    """Convert a preset to a rectified flow that predicts the velocity, with two experts separated where SNR is 1.

    The control of the experts, `longer`, sees as many images as both together.
    """
    start, end = recipes_of(text)
    recipes = text[start:end]
    expert = int(re.findall(r"^  expert:.*\n    images: (\d+)", recipes, re.MULTILINE)[0])
    recipes = re.sub(
        r"(^  (?:longer|stratified):.*\n    images: )\d+", rf"\g<1>{2 * expert}", recipes, flags=re.MULTILINE
    )
    text = predicting(text[:start] + recipes + text[end:], "velocity")
    for section, key, value in (("schedule", "name", "flow"), ("groups", "ids", [0, 1]), ("groups", "kind", "snr")):
        text = replaced(text, section, key, value)
    return text


def predicting(text: str, prediction: str) -> str:
    """Change the prediction of a preset's models from noise to another; the model of three heads does not change."""
    start, end = recipes_of(text)
    return text[:start] + text[start:end].replace("prediction: epsilon", f"prediction: {prediction}") + text[end:]


def by_method(text: str, method: Method) -> str:
    """Apply a method to a preset's models, except the network of three heads, whose losses are the paper's.

    Recipes inside a range or over slots have their own timesteps, and take the weight alone.
    """
    start, end = recipes_of(text)
    recipes = re.split(r"^(?=  \w+:)", text[start:end], flags=re.MULTILINE)
    for index, recipe in enumerate(recipes):
        if "prediction: mixed" not in recipe:
            changed = recipe.replace("{density: uniform}", method.sampler)
            recipes[index] = changed.replace("loss_weight: {kind: none}", f"loss_weight: {method.loss_weight}")
    found = "".join(recipes)
    if method != METHODS["uniform"]:
        where = f"{method.measured} on CIFAR-10 at 8 pixels against uniform timesteps; not tried on yours"
        found = found.replace("\nrecipes:", f"\nrecipes: # timesteps and weights: {where}", 1)
    return text[:start] + found + text[end:]


def scaled(text: str, most: int, batch: int) -> tuple[str, int, int]:
    """Scale all budgets of a params file by one factor, so that the base sees at most `most` images.

    Budgets remain whole multiples of the smallest one, and that of the batch, so that equal compute remains equal.

    Returns:
        The text, the base's budget, and the base's former one.
    """
    start, end = recipes_of(text)
    recipes = text[start:end]
    budgets = [int(one) for one in re.findall(r"^    images: (\d+)", recipes, re.MULTILINE)]
    least, base = min(budgets), budgets[0]
    unit = max(1, int(min(1, most / base) * least / batch)) * batch
    recipes = re.sub(r"images: (\d+)", lambda match: f"images: {int(match[1]) * unit // least}", recipes)
    return text[:start] + recipes + text[end:], base // least * unit, base


def headed(text: str, images: str, command: str) -> str:
    """Add comments that describe an adapted preset, and a digest that identifies it, above its text."""
    body = text.split("\n", 2)[2]
    body = re.sub(r"^network:.*$", "network:", body, flags=re.MULTILINE)
    body = f"# Settings for the images of {images}, made by `{command}`.\n{body}"
    return f"{SCHEMA}\n{DIGEST}{digest(body)}\n{body}"


def digest(body: str) -> str:
    """Short digest of a text."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def is_untouched(text: str) -> bool:
    """Say whether a params file is unchanged since `unequal init` wrote it."""
    _, _, rest = text.partition("\n")
    line, _, body = rest.partition("\n")
    return line == f"{DIGEST}{digest(body)}"
