"""Smoke run: every stage of a params file's graph with small budgets, in a folder of its own.

Network, batches, precision and data do not change, so that failures from lack of memory or from an image appear here.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from unequal.cli.estimate import JOB, busy, measured_here, start_seconds, workload
from unequal.errors import UserError, say
from unequal.pipeline.folders import GRAPH, MADE, make_folder
from unequal.pipeline.params_files import check_params
from unequal.pipeline.running import make_project, run_engine
from unequal.pipeline.sources import sources
from unequal.pipeline.trials import TRIALS
from unequal.report.formatting import duration
from unequal.settings.params import EXPERTS, Params
from unequal.settings.strict import PARAMS, read_yaml, validate

#: Setting → upper limit. A limit is applied only if the file remains valid with it.
LIMITS: dict[str, int] = {
    "profile.images": 2,
    "profile.floor": 64,
    "sampling.steps": 5,
    "sampling.batch_size": 32,
    "evaluation.kid_subset": 16,
    "evaluation.samples": 64,
    "extractor.images": 128_000,  # features that have learned too little are refused
    "training.log_every": 10,
    "training.pictures": 1,
    "training.checkpoint_every": 50,
}
#: Upper limits of each way of pruning, and of its ranking of units.
PRUNING_LIMITS = {"rounds": 1, "candidates": 1, "images": 64, "trials": 1}
#: Lists of models, and models that are each profiled and scored in a different way.
MODELS, KINDS = ("scored_models", "profiled_models"), ("base", "mixed", *EXPERTS)
#: Shares of the budgets, tried from the largest until the run fits the time.
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0)


def try_out(file: Path, minutes: float, cores: int) -> None:
    """Run the graph of a params file with small budgets. Raises UserError where a stage fails."""
    if "experiment" in read_yaml(file):
        raise UserError(f"{file}: an experiment; allowed: a params file without the section `experiment`")
    if not isinstance(check_params(file), Params):
        raise UserError(f"{file}: not of the pipeline; a folder with a graph of its own is tried by its own command")
    say(f"{file}: measures how fast this machine is, to choose budgets …")
    folder = TRIALS / file.stem
    seconds, document = fitted(read_yaml(file), file, 60 * minutes)
    for source in sources(document).values():
        if source.value is not None and (file.parent / source.value).exists():
            place = os.path.relpath(file.parent / source.value, folder)
            document = with_values(document, {source.key: place})
    make_folder(folder, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    make_project(folder)  # git ignores `tries`, and DVC refuses a graph that git ignores
    own = file.with_name(GRAPH.name)
    if own.exists() and not own.read_text(encoding="utf-8").startswith(MADE):
        shutil.copyfile(own, folder / GRAPH)
    base, expected = document["recipes"]["base"]["images"], f"about {duration(seconds)}"
    say(*busy(validate(Params, document, file)))
    if seconds > 60 * minutes:
        say(f"{file}: the smallest run of this file takes {expected} here, not {minutes:g} min; Ctrl-C ends it")
    say(f"{folder}: all stages, the base on {base:,} images; {expected}, one stage after another")
    log = folder / "logs/engine.log"
    say(f"A line a stage as it ends; all that the engine says: {log}")
    start = time.monotonic()
    run_engine(folder, "snakemake", cores, log=log)
    say(
        f"{file}: every stage ran, in {duration(time.monotonic() - start)} ({expected} expected, {minutes:g} min asked "
        "for); the file was not changed.",
        f"  its page, whose figures say nothing of quality: {folder / 'results/report.html'}",
        *(["  next: snakemake --cores all"] if file == Path(PARAMS) else []),
    )


def fitted(document: dict[str, Any], file: Path, limit: float) -> tuple[float, dict[str, Any]]:
    """Estimated seconds, and settings shrunk until their run takes at most `limit` of them here, as far as possible."""
    document = shrunk(document, file)
    net, rates = measured_here(validate(Params, document, file))
    start = start_seconds() + start_seconds(JOB)
    seconds, candidate = 0.0, document
    kinds = {name: [model for model in document[name] if model in KINDS] for name in MODELS}
    least = sound(with_budgets(document, 0.0, file), kinds, file)  # which measures one model of each kind
    for candidate in (*(with_budgets(document, share, file) for share in SHARES), least):
        works = workload(validate(Params, candidate, file), net)
        seconds = sum(work.seconds(rates, start) for work in works)
        if seconds <= limit:
            break
    return seconds, candidate


def shrunk(document: dict[str, Any], file: Path) -> dict[str, Any]:
    """Lower all counts outside trainings, and drop models that differ only in a number."""
    document = sound(document, {"evaluation.allow_singular": True}, file)
    for keys, value in smaller(document):
        document = sound(document, {keys: value}, file)
    slots = document["slots"]["finetune"]
    kept = next((slot for slot in slots if f"slot_{slot}" in document["scored_models"]), slots[0])
    gone = {f"slot_{slot}" for slot in slots if slot != kept}
    models = {name: [model for model in document[name] if model not in gone] for name in MODELS}
    seeds = document["evaluation"]["seeds"][:1]
    return sound(document, {"slots.finetune": [kept], "evaluation.seeds": seeds} | models, file)


def smaller(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys of counts with smaller values."""
    for dotted, most in LIMITS.items():
        section, key = dotted.split(".")
        value = document[section].get(key)
        if isinstance(value, list):
            yield dotted, value[:: max(1, len(value) // most)]
        elif value == "all" or (isinstance(value, int) and value > most):
            yield dotted, most
    for name, method in document["pruning"].items():
        for key, most in PRUNING_LIMITS.items():
            if isinstance(method.get(key), int) and method[key] > most:
                yield f"pruning.{name}.{key}", most


def with_budgets(document: dict[str, Any], share: float, file: Path) -> dict[str, Any]:
    """Settings whose trainings see a share of their images, but at least a batch, as far as they remain valid."""
    batch = document["training"]["batch_size"]
    for name, recipe in document["recipes"].items():
        images = max(batch, round(share * recipe["images"]))
        changes = {f"recipes.{name}.images": images}
        for part in ("optimizer", "sampler"):
            if (warmup := recipe[part].get("warmup_images")) is not None:
                changes[f"recipes.{name}.{part}.warmup_images"] = min(warmup, images // 2)
        document = sound(document, changes, file)
    return document


def sound(document: dict[str, Any], changes: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Change values at dotted keys of a document; return it unchanged if it would not be valid."""
    changed = with_values(document, changes)
    with suppress(UserError):
        validate(Params, changed, file)
        return changed
    return document


def with_values(document: Any, changes: Mapping[str, Any]) -> Any:
    """Return a copy of a document with other values at dotted keys."""
    for dotted, value in changes.items():
        first, _, rest = dotted.partition(".")
        document = document | {first: with_values(document[first], {rest: value}) if rest else value}
    return document
