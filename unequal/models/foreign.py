"""Networks of diffusers and transformers that others have trained: loaded whole, or refused in one line.

Their loaders only warn of weights that are missing, and leave them as they were drawn. Nothing is unpickled but
tensors, and no code of a model's folder is run: classes are those of the two libraries, never names from a file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

from torch import nn

from unequal.errors import UserError, first_line
from unequal.models.weights import check_finite

CONFIG = "config.json"
#: Key of a configuration of transformers that may name code on the Hub, owner/name, which would be downloaded.
KERNEL = "attn_implementation"


def find_network(
    kinds: Mapping[str, type[Any]], source: str, place: str, subfolders: Sequence[str | None], **choices: Any
) -> nn.Module:
    """Load the network of a folder or on the Hub, from the first subfolder that has a configuration.

    Args:
        kinds: its class by name, of those that are allowed.
        source: folder, or owner/name with the `revision` among the choices.
        place: beginning of a refusal.
        subfolders: where pipelines keep theirs; None is the folder itself.
        choices: further arguments of `from_pretrained`.

    Raises:
        UserError: there is none, it is of another class, or not whole.
    """
    allowed, reasons = " or ".join(kinds), list[str]()
    for subfolder in subfolders:
        where = {"subfolder": subfolder, "revision": choices.get("revision")}
        try:
            with quiet():
                name = next(iter(kinds.values())).load_config(source, **where)["_class_name"]
        except Exception as error:  # of what is no configuration, diffusers says so in many ways
            reasons.append(first_line(error))
            continue
        if str(name) not in kinds:
            raise UserError(f"{place} is a {name}; allowed: {allowed}")
        return load_whole(kinds[name], source, place, subfolder=subfolder, **choices)
    raise UserError(f"{place} holds no {allowed}: {reasons[-1]}")


def load_whole(kind: type[Any], source: str, place: str, *, exact: bool = False, **choices: Any) -> nn.Module:
    """Load a network by the class of its library, onto the CPU.

    Args:
        kind: the class, with diffusers' and transformers' `from_pretrained`.
        source: folder, or owner/name on the Hub.
        place: beginning of a refusal.
        exact: refuse weights for which the network has no place.
        choices: further arguments of `from_pretrained`.

    Raises:
        UserError: it does not load, weights are missing, or one is NaN or infinite.
    """
    if KERNEL not in choices:
        refuse_kernels(Path(source) / (choices.get("subfolder") or "") / CONFIG, place)
    try:
        with quiet():
            options = {"use_safetensors": True} | choices
            net, loading = kind.from_pretrained(source, **options, output_loading_info=True)
    except Exception as error:  # of what is no network, diffusers, transformers and PyTorch say so in many ways
        raise UserError(f"{place} holds no {kind.__name__}: {first_line(error)}") from None
    check_whole(loading, place)
    if exact and (further := sorted(loading["unexpected_keys"])):
        raise UserError(f"{place} has no place for '{further[0]}', by its {CONFIG}")
    check_finite(net.state_dict(), place)
    return net


def check_whole(loading: Mapping[str, Any], place: str) -> None:
    """Raise UserError where weights of a network are missing, or have other shapes, by what its loader reports."""
    if missing := sorted(loading["missing_keys"]):
        raise UserError(f"{place} lacks {len(missing)} weights of its network: '{missing[0]}'")
    if other := sorted(loading.get("mismatched_keys") or ()):
        name, has, needed = other[0]
        raise UserError(f"{place}: '{name}' has the shape {list(has)}, and {list(needed)} by its {CONFIG}")


def refuse_kernels(config: Path, place: str) -> None:
    """Raise UserError where a configuration on this machine names code that transformers would download and run."""
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # on the Hub, or no configuration, which the loader says
        return
    values = (content.get(name) for name in (KERNEL, f"_{KERNEL}")) if isinstance(content, dict) else ()
    if named := next((value for value in values if value is not None and "/" in str(value)), None):
        raise UserError(f"{place}: {CONFIG}: {KERNEL}: {named} names code on the Hub, which is not run")


@contextmanager
def quiet(transformers: bool = False) -> Iterator[None]:
    """Keep back logs, warnings and bars of diffusers, and of transformers, whose import takes a second."""
    from diffusers.utils import logging

    logs = [logging]
    if transformers:
        from transformers.utils import logging as of_transformers

        logs.append(of_transformers)
    levels = [log.get_verbosity() for log in logs]
    for log in logs:
        log.set_verbosity(CRITICAL)  # errors are logged and raised
        log.disable_progress_bar()
    try:
        with catch_warnings():
            simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.set_verbosity(level)
