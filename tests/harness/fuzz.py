"""Mutations of the tiny params.yaml, and what comes of them: a refusal of one line, or a run of the pipeline."""

import importlib
import json
import math
import re
import shlex
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import networkx
import yaml
from click.testing import CliRunner
from hypothesis import strategies as st

from harness.projects import ROOT, TINY, section_of, shrink
from unequal.errors import UserError
from unequal.pipeline.sources import check_sources, write_sources
from unequal.settings.params import Params
from unequal.settings.strict import PARAMS

Document = dict[str, Any]
Place = tuple[str | int, ...]

#: Values that replace any other.
STRANGE: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, 7, 2**31, 2**63, 10**30),
    *(0.0, 0.5, 1.0, -0.5, 1e-300, 1e300, math.inf, math.nan),
    *("", "x", "none", "base", "slot_3", "x; touch pwned #", "../up", "1e-4", "\x00", "é" * 300),
    *([], {}, [0], [[]], ["base", "base"], [3, 1], {"kind": "none"}, {"density": "slot", "draw": "mirrored"}),
]
#: Texts that are inserted into a params file: YAML's signs, and values that its readers fail on.
PIECES = [
    *"[]{}#|'\"\n\t\x00\u2028",
    *(": ", "- ", "  ", "&a ", "*a", "<<: ", "? "),
    *("!!int ", "!!bool ", "!!float ", "!!map ", " 2025-02-30", " " + "9" * 5000, "[" * 200, '"\\ud800"', '"\\e[2J"'),
]
#: Beside those of tiny.yaml: what makes a run take seconds.
SMALLER = {
    **{f"recipes.{name}.images": 128 for name in ("base", "mixed", "slot", "expert", "stratified")},
    **{f"recipes.{name}.optimizer.warmup_images": 64 for name in ("base", "mixed", "slot", "expert", "stratified")},
    "training.batch_size": 32,
    "network.block_out_channels": [4, 8],
    "schedule.timesteps": 100,
    "sampling.steps": 3,
    "extractor.images": 640,
    "extractor.features": 8,
    "evaluation.samples": 16,
    "evaluation.kid_subset": 8,
    "pruning.expert.rounds": 1,
    "pruning.expert.images": 16,
    "pruning.expert.start": [{"method": "magnitude"}],
    "pruning.expert.ranking.images": 16,
    "slots.count": 4,
    "data.holdout": 0.5,
}


def tiny_params() -> Document:
    """The repository's params.yaml with tiny budgets."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PARAMS
        shutil.copy(ROOT / PARAMS, path)
        shrink(path, TINY)
        found: Document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for dotted, value in SMALLER.items():
        section, last = section_of(found, dotted)
        section[last] = value
    return found


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """All places in a document, of sections and lists too."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*place, key)
        yield from places(one, (*place, key))


def at(document: Document, place: Place) -> Any:
    """The value at a place."""
    value: Any = document
    for key in place:
        value = value[key]
    return value


def near(value: Any) -> list[Any]:
    """Draw values near a value: other numbers of its kind, a shorter or longer list."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 2, value * 1000, value - 1, value + 1, -value, value / 2, type(value)(0), str(value)]
    if isinstance(value, list):
        return [value[:1], value[1:], value[::-1], value + value[:1]]
    return [str(value).upper(), f"{value} ", [value]]


@st.composite
def mutated(draw: st.DrawFn, document: Document) -> Document:
    """A params file with one to three values replaced, deleted, added or taken from elsewhere."""
    found: Document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        there = list(places(found))
        place = draw(st.sampled_from(there))
        parent, key = at(found, place[:-1]), place[-1]
        match draw(st.sampled_from(["near", "near", "strange", "other", "delete", "add"])):
            case "near":
                parent[key] = draw(st.sampled_from(near(parent[key])))
            case "strange":
                parent[key] = draw(st.sampled_from(STRANGE))
            case "other":
                parent[key] = json.loads(json.dumps(at(found, draw(st.sampled_from(there)))))
            case "delete":
                del parent[key]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(["kind", "colour", "x; y", "", "é"]))] = parent[key]
    return found


@st.composite
def misspelt(draw: st.DrawFn, text: str) -> str:
    """The text of a params file with one to three pieces of it inserted, replaced or deleted."""
    for _ in range(draw(st.integers(1, 3))):
        start, length = draw(st.integers(0, len(text))), draw(st.sampled_from([0, 1, 1, 5, 50]))
        piece = draw(st.sampled_from(PIECES) | st.text(max_size=3))
        text = text[:start] + piece + text[start + length :]
    return text


def refusal(read: Callable[[Path], object], document: Document | str, folder: Path) -> str | None:
    """Return a reader's refusal of a document or a text; None where it accepts it."""
    path = folder / PARAMS
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    try:
        read(path)
    except UserError as error:
        said = str(error)
        for line in said.split("\n"):  # one a problem
            assert re.match(rf"{re.escape(str(path))}(:\d+)?: ", line), line
            assert line.isprintable(), repr(line)
        return said
    return None


def gate(path: Path) -> None:
    """Run the checks before all stages."""
    Params.read(path)
    check_sources(path)


def run_pipeline(folder: Path) -> str | None:
    """Run all stages of the graph on the params.yaml of a folder; what a stage says that refuses, None at the end."""
    from dvc.repo import Repo

    shutil.copy(ROOT / "dvc.yaml", folder)
    with chdir(folder), patch("unequal.pipeline.stage.Tracker", MagicMock()):
        graph = Repo.init(no_scm=True).index.graph
        write_sources(Path("dvc.yaml"))
        for stage in reversed(list(networkx.topological_sort(graph))):
            words = shlex.split(stage.cmd)[2:]
            if stage.name == "code":
                continue
            result = CliRunner().invoke(importlib.import_module(words[0]).main, words[1:])
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise AssertionError(f"{stage.name}: {''.join(traceback.format_exception(result.exception))}")
            if result.exit_code:
                assert result.exit_code == 1, f"{stage.name}: status {result.exit_code}: {result.stderr}"
                assert result.stderr.strip(), f"{stage.name}: nothing was said"
                line = result.stderr.strip().splitlines()[-1]
                assert line.startswith(f"{words[0].rpartition('.')[2]}: "), result.stderr
                assert not any((folder / out.def_path).exists() for out in stage.outs), f"{stage.name}: half-written"
                return line
    return None


def outcome(document: Document) -> str:
    """`refused`, `runs`, `refused by a stage`, or the fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            if refusal(gate, document, folder) is not None:
                return "refused"
            said = run_pipeline(folder)
            return "runs" if said is None else f"refused by a stage: {said}"
        except Exception as error:
            return f"FAULT {type(error).__name__}: {error}"
