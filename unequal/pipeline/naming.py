"""Name and description of a run in MLflow: its data, and which settings differ from the commit's or another run's."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unequal.pipeline.sources import value_at

#: Most settings by which a file is still the other one, changed; beyond, it is a file of its own.
NEAR = 12
#: Settings that a name has at most, and characters of each value there.
NAMED_CHANGES, NAME_CHARACTERS = 3, 24


class Earlier(NamedTuple):
    """An earlier run: its name, and its settings as text under dotted keys."""

    name: str
    settings: Mapping[str, str]


class RunLabel(NamedTuple):
    """Name of a run, and its description in Markdown."""

    name: str
    description: str


def run_label(
    written: Mapping[str, Any],
    committed: Mapping[str, Any] | None,
    logged: Mapping[str, Any],
    earlier: Sequence[Earlier],
) -> RunLabel:
    """Say what a run is of, and what differs.

    Args:
        written: params.yaml as it stands in its file.
        committed: the same of the commit; None where there is none.
        logged: settings as MLflow has them, with hashes in the place of paths.
        earlier: runs to compare with where the commit's settings differ in many values.
    """
    if committed is not None:
        changed = differences(texts(committed), texts(written))
        if not changed:
            return RunLabel("as committed", "Settings as in the commit's params.yaml.")
        if len(changed) <= NEAR:
            return RunLabel(joined(changed), f"Differs from the commit's params.yaml:\n\n{listed(changed)}")
    now, data = texts(logged), data_label(written)
    nearest = min(earlier, key=lambda one: len(differences(one.settings, now)), default=None)
    if nearest is None or len(changed := differences(nearest.settings, now)) > NEAR:
        return RunLabel(data, "A params file of its own: its settings are the parameters below.")
    return RunLabel(f"{data} {joined(changed)}", f"Differs from the run “{nearest.name}”:\n\n{listed(changed)}")


def data_label(written: Mapping[str, Any]) -> str:
    """The images in a few words: their name, and pixels."""
    pixels = value_at(written, "data", "image_size")
    return " ".join([data_name(written) or "other settings", *([] if pixels is None else [f"{pixels} px"])])


def data_name(written: Mapping[str, Any]) -> str:
    """Name of the images' folder or file, else their source; empty where settings have no data."""
    return Path(str(value_at(written, "data", "path") or value_at(written, "data", "source") or "")).name


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Dotted key → value before and now, where they differ; a dash where there is none."""
    keys = [key for key in {**now, **before} if now.get(key) != before.get(key) and not key.startswith("runtime.")]
    return {key: (before.get(key, "–"), now.get(key, "–")) for key in keys}


def joined(changed: Mapping[str, tuple[str, str]]) -> str:
    """The first changes, and how many more there are."""
    shown = [f"{key}={now[:NAME_CHARACTERS]}" for key, (_, now) in list(changed.items())[:NAMED_CHANGES]]
    more = len(changed) - NAMED_CHANGES
    return " ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def listed(changed: Mapping[str, tuple[str, str]]) -> str:
    """Changes as a list in Markdown."""
    return "\n".join(f"- `{key}`: {before} → {now}" for key, (before, now) in changed.items())


def texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Dotted keys → values as text."""
    return {key: as_text(value) for key, value in leaves(settings)}


def leaves(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of everything in nested mappings."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def as_text(value: Any) -> str:
    """Format a setting for MLflow: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
