"""Edits of a preset that preserve its comments: a flow, a prediction, a method, budgets."""

import hashlib
import re
from typing import Any, NamedTuple

from unequal.cli.editing import change, in_a_line

#: Schema by which editors complete the file.
SCHEMA = "# yaml-language-server: $schema=params.schema.json"
#: Line that identifies a file which nobody has edited.
DIGEST = "# `unequal init` overwrites this file as long as nobody has edited it. Digest of what follows: "
#: Timesteps and loss weight that methods replace.
UNIFORM, UNWEIGHTED = {"density": "uniform"}, {"kind": "none"}


class Method(NamedTuple):
    """Timesteps and loss weight of trainings on all timesteps.

    Attributes:
        measured: change of a flow's FID relative to uniform timesteps, as text.
    """

    sampler: dict[str, Any]
    loss_weight: dict[str, Any]
    measured: str


METHODS = {
    "uniform": Method(UNIFORM, UNWEIGHTED, "the baseline"),
    "min_snr": Method(UNIFORM, {"kind": "min_snr", "gamma": 5.0}, "FID −25.5 %"),
    "logit_normal": Method({"density": "logit_normal"}, UNWEIGHTED, "FID −21.1 %"),
}


def make_flow(preset: Any) -> None:
    """Convert a preset to a rectified flow that predicts the velocity, with two experts separated where SNR is 1.

    The control of the experts, `longer`, sees as many images as both together.
    """
    recipes = preset["recipes"]
    for name in ("longer", "stratified"):
        recipes[name]["images"] = 2 * recipes["expert"]["images"]
    predict(preset, "velocity")
    change(preset, {"schedule.name": "flow", "groups.ids": in_a_line([0, 1]), "groups.kind": "snr"})


def predict(preset: Any, prediction: str) -> None:
    """Change the prediction of a preset's models from noise to another; the model of three heads does not change."""
    for recipe in preset["recipes"].values():
        if recipe["prediction"] == "epsilon":
            recipe["prediction"] = prediction


def apply_method(preset: Any, method: Method) -> None:
    """Apply a method to a preset's models, except the network of three heads, whose losses are the paper's.

    Recipes inside a range or over slots have their own timesteps, and take the weight alone.
    """
    for recipe in preset["recipes"].values():
        if recipe["prediction"] == "mixed":
            continue
        if recipe["sampler"] == UNIFORM:
            recipe["sampler"] = in_a_line(method.sampler)
        if recipe["loss_weight"] == UNWEIGHTED:
            recipe["loss_weight"] = in_a_line(method.loss_weight)
    if method != METHODS["uniform"]:
        where = f"{method.measured} on CIFAR-10 at 8 pixels against uniform timesteps; not tried on yours"
        preset.yaml_add_eol_comment(f"timesteps and weights: {where}", "recipes")


def scale_budgets(preset: Any, most: int, batch: int) -> tuple[int, int]:
    """Scale all budgets of a preset by one factor, so that the base sees at most `most` images.

    Budgets remain whole multiples of the smallest one, and that of the batch, so that equal compute remains equal.

    Returns:
        The base's budget, and the base's former one.
    """
    budgets = [recipe["images"] for recipe in preset["recipes"].values()]
    least, base = min(budgets), budgets[0]
    unit = max(1, int(min(1, most / base) * least / batch)) * batch

    def scale(section: Any) -> None:
        for key, value in section.items():
            if isinstance(value, dict):
                scale(value)
            elif key.endswith("images"):
                section[key] = value * unit // least

    scale(preset["recipes"])
    return base // least * unit, base


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
