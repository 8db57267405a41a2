"""Edits of a params file that preserve its comments: a flow, a prediction, a method, budgets."""

import hashlib
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from unequal.errors import UserError, needs, plain

needs(__name__, "pipeline", "ruamel")

from ruamel.yaml import YAML  # noqa: E402
from ruamel.yaml.comments import CommentedMap, CommentedSeq  # noqa: E402

#: Line that identifies a file which nobody has edited.
DIGEST = "# `unequal init` overwrites this file as long as nobody has edited it. Digest of what follows: "
#: Timesteps and loss weight that methods replace.
UNIFORM, UNWEIGHTED = {"density": "uniform"}, {"kind": "none"}
#: Method → timesteps and loss weight of trainings on all timesteps, and its measured change of a flow's FID.
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "uniform": (UNIFORM, UNWEIGHTED, ""),
    "min_snr": (UNIFORM, {"kind": "min_snr", "gamma": 5.0}, ": a flow's FID −25.5 % on CIFAR-10 at 8 pixels"),
    "logit_normal": ({"density": "logit_normal"}, UNWEIGHTED, ": a flow's FID −21.1 % on CIFAR-10 at 8 pixels"),
}


def yaml_of_file() -> YAML:
    """Reader and writer of YAML that preserves comments, quotes, lines and the order of keys."""
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.add_representer(
        type(None), lambda yaml, _: yaml.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def in_a_line(value: Any) -> Any:
    """Convert a value to one line: mappings and lists in flow style."""
    if not isinstance(value, Mapping | list | tuple):
        return value
    line: CommentedMap | CommentedSeq = (
        CommentedMap({key: in_a_line(item) for key, item in value.items()})
        if isinstance(value, Mapping)
        else CommentedSeq(in_a_line(item) for item in value)
    )
    line.fa.set_flow_style()
    return line


def change(document: Any, values: Mapping[str, Any]) -> None:
    """Set a document's values at dotted keys; mappings and lists are written in a line."""
    for dotted, value in values.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            if not isinstance(place.get(section), dict):
                place[section] = CommentedMap()
            place = place[section]
        place[last] = in_a_line(value)


def edited(text: str, values: Mapping[str, Any], name: Path) -> str:
    """Set a params file's values at dotted keys in its text. Raises UserError where the text is no YAML."""
    yaml, result = yaml_of_file(), StringIO()
    try:
        document = yaml.load(text)
    except Exception as error:
        raise UserError(f"{name}: cannot be edited: {plain(str(error))}") from None
    change(document, values)
    yaml.dump(document, result)
    return result.getvalue()


def predict(preset: Any, prediction: str) -> None:
    """Change the prediction of a preset's models from noise to another; the model of three heads does not change."""
    for recipe in preset["recipes"].values():
        if recipe["prediction"] == "epsilon":
            recipe["prediction"] = prediction


def make_flow(preset: Any) -> None:
    """Convert a preset to a rectified flow that predicts the velocity, with two experts separated where SNR is 1.

    The control of the experts, `longer`, sees as many images as both together.
    """
    recipes = preset["recipes"]
    for name in ("longer", "stratified"):
        recipes[name]["images"] = 2 * recipes["expert"]["images"]
    predict(preset, "velocity")
    change(preset, {"schedule.name": "flow", "groups.ids": [0, 1], "groups.kind": "snr"})


def apply_method(preset: Any, method: str) -> None:
    """Apply a method to a preset's models, except the network of three heads, whose losses are the paper's.

    Recipes inside a range or over slots have their own timesteps, and take the weight alone.
    """
    sampler, weight, measured = METHODS[method]
    for recipe in preset["recipes"].values():
        if recipe["prediction"] == "mixed":
            continue
        if recipe["sampler"] == UNIFORM:
            recipe["sampler"] = in_a_line(sampler)
        if recipe["loss_weight"] == UNWEIGHTED:
            recipe["loss_weight"] = in_a_line(weight)
    if measured:
        preset.yaml_add_eol_comment(f"{method}{measured}; not tried on yours", "recipes")


def scale_budgets(preset: Any, most: int, batch: int) -> int:
    """Scale all budgets of a preset by one factor, so that the base sees at most `most` images; return the base's.

    Budgets remain whole multiples of the smallest one, and that of the batch, so that equal compute remains equal.
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
    return int(base // least * unit)


def with_header(text: str, schema: str, about: str) -> str:
    """Replace a preset's first line by its schema for editors, a digest that detects edits, and a comment."""
    body = f"# {about}\n{text.partition(chr(10))[2]}"
    return f"# yaml-language-server: $schema={schema}\n{DIGEST}{digest(body)}\n{body}"


def digest(body: str) -> str:
    """Short digest of a text."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def is_untouched(text: str) -> bool:
    """Say whether a params file is unchanged since `unequal init` wrote it."""
    _, line, body = (*text.split("\n", 2), "", "")[:3]
    return line == f"{DIGEST}{digest(body)}"
