"""Bad files of settings, as the gate before all stages meets them: one line, and nothing is begun."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import params_files
import pytest
import yaml
from refusals import ROOT, Bad, as_process, check_refused, table

from stages import check_params

PARAMS = Path("params.yaml")
TEXT = (ROOT / PARAMS).read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _sound(project: Path) -> None:
    PARAMS.write_text(TEXT, encoding="utf-8")


def replaced(old: str, new: str) -> Callable[[], object]:
    assert old in TEXT
    return lambda: PARAMS.write_text(TEXT.replace(old, new, 1), encoding="utf-8")


def edited(dotted: str, value: Any) -> Callable[[], object]:
    """The sound settings with another value at a key."""
    return lambda: params_files.edited(ROOT / PARAMS, {dotted: value}, Path())


DROPPED = {"kind": "dropped_labels", "classes": 10, "dropout": 0.1}


def transformer(also: dict[str, Any] | None = None, **changes: Any) -> Callable[[], None]:
    """The sound settings with a transformer of which something is otherwise; of a key with None, nothing is left."""
    network = {"kind": "dit", "pretrained": None, "depth": 2, "width": 16, "heads": 2, "patch": 2} | changes
    network = {key: value for key, value in network.items() if value is not None or key == "pretrained"}

    def spoil() -> None:
        document = yaml.safe_load(TEXT) | {"network": network}
        # A network with labels has no floor.
        document["profile"]["floor"] = "none"
        for dotted, value in (also or {}).items():
            section, key = dotted.split(".")
            document[section][key] = value
        PARAMS.write_text(yaml.safe_dump(document))

    return spoil


BAD: dict[str, Bad] = {
    "no file": Bad(PARAMS.unlink, "params.yaml: missing; run from the folder that holds it"),
    "a folder": Bad(lambda: (PARAMS.unlink(), PARAMS.mkdir()), "params.yaml: cannot be read: Is a directory"),
    "a link to nowhere": Bad(lambda: (PARAMS.unlink(), PARAMS.symlink_to("nowhere")), "params.yaml: missing"),
    "an unknown key": Bad(edited("training.batchsize", 3), "training.batchsize: unknown key; allowed here: batch_size"),
    "a path of two lines": Bad(edited("network.pretrained", "a\nb"), "network.pretrained"),
    "a path that is not there": Bad(
        edited("network.pretrained", "/nowhere/at/all"), "network.pretrained: /nowhere/at/all: missing; allowed"
    ),
    "a key of another kind": Bad(edited("network.patch", 2), "network.patch: unknown key; allowed here: kind, pre"),
    "a patch that does not divide": Bad(
        transformer(patch=3), "network.patch: 3 does not divide the 8 pixels that the network sees"
    ),
    "heads that do not divide": Bad(transformer(heads=5), "network.heads: 5 do not divide the width 16"),
    "a width without positions": Bad(transformer(width=18, heads=2), "network.width: 18 is no multiple of 4"),
    "a file of nobody": Bad(transformer(pretrained="a.pt"), "network.trained_by: needed by pretrained 'a.pt'"),
    "a file of a U-Net's": Bad(transformer(openai={"num_heads": 4}), "network.openai: unknown key; allowed here: kind"),
    "guidance without labels": Bad(
        edited("sampling.guidance", {"scale": 2.0}),
        "sampling.guidance: needs a model that has learned without labels too, not kind 'none'; allowed",
    ),
    "guidance where labels are never dropped": Bad(
        transformer({"sampling.guidance": {"scale": 2.0}}, condition={"kind": "labels", "classes": 10}),
        "not kind 'labels'; allowed: null, or network.condition.kind dropped_labels",
    ),
    "guidance scored by the labels": Bad(
        transformer({"sampling.guidance": {"scale": 2.0}}, condition=DROPPED),
        "sampling.guidance: cannot be scored by extractor.kind 'classifier', whose features know the labels",
    ),
}  # fmt: skip


@table(BAD)
def test_bad_settings_do_not_pass_the_gate(bad: Bad) -> None:
    bad.spoil()
    check_refused(check_params, said=bad.said, outputs=["artifacts/params_checked.json"], several=True)


@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
def test_a_process_that_meets_bad_settings_says_one_line() -> None:
    bad = BAD["an unknown key"]
    bad.spoil()
    check_refused(check_params, said=bad.said, outputs=["artifacts/params_checked.json"], run=as_process)
