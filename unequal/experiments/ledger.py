"""The ledger of an experiment: one row per training, its costs and endpoints, from what the stages have written."""

import csv
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from unequal.errors import UserError
from unequal.experiments.declaration import Declared, Endpoint
from unequal.pipeline.commit import git
from unequal.report.formatting import today
from unequal.runtime.files import read_json, require, write_csv, write_json
from unequal.settings.strict import read_yaml

#: Libraries whose versions a record names.
LIBRARIES = ("torch", "numpy", "diffusers", "accelerate", "torch-fidelity")
#: The files of an experiment, below its folder.
TRAININGS, RECORD = Path("results/trainings.csv"), Path("results/record.json")


def gather(run: Path, declared: Declared) -> list[dict[str, Any]]:
    """Rows of all measured trainings: `judged` ones, and `rate` ones that chose a learning rate.

    Raises:
        UserError: a file is missing, or trainings were measured under unequal conditions.
    """
    experiment, rates = declared.experiment, declared.experiment.rates
    rows, conditions = list[dict[str, Any]](), dict[str, Any]()
    for variant in declared.variants:
        training = declared.training_of(variant)
        tried = rates.factors if rates and training == variant else ()
        names = {f"{variant}_rate_{number}": factor for number, factor in enumerate(tried)}
        jobs = [("rate", name, name, rates.seeds, factor) for name, factor in names.items()] if rates else []
        chosen = read_json(run / f"artifacts/rates/{training}.json")["factor"] if rates else 1.0
        for role, name, trained, seeds, factor in (*jobs, ("judged", variant, training, experiment.seeds, chosen)):
            for seed in seeds:
                measured = read_json(require(run / f"results/endpoints/{name}/seed_{seed}.json"))
                for key, value in measured.get("conditions", {}).items():
                    if conditions.setdefault(key, value) != value:
                        raise UserError(f"{run}: trainings were measured under unequal {key}; measure them again")
                head = {"role": role, "variant": variant, "rate": factor * base_rate(declared, variant), "seed": seed}
                rows.append(head | costs(run, trained, seed, measured) | measured.get("scores", {}) | ends(measured))
    return [dict.fromkeys(key for row in rows for key in row) | row for row in rows]


def base_rate(declared: Declared, variant: str) -> float:
    """Learning rate of a variant's recipe."""
    settings = declared.variants[variant]
    return (settings.base if settings.plan is None else settings.plan.recipe).optimizer.lr


def ends(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The endpoints of a training; empty ones if it diverged."""
    names = Endpoint.__args__  # type: ignore[attr-defined]
    return {name: measured.get("endpoints", {}).get(name, "") for name in names}


def costs(run: Path, training: str, seed: int, measured: Mapping[str, Any]) -> dict[str, Any]:
    """Images, FLOPs and seconds of a training with its base's, and FLOPs of a sample."""
    own = read_json(require(run / f"results/trainings/{training}/seed_{seed}.json"))
    known = measured.get("costs", {})
    return {
        "images": known.get("images_seen", ""),
        "training_flops": known.get("training_flops", ""),
        "search_flops": own.get("search_flops", 0),
        "sampling_flops": known.get("sampling_flops_per_image", ""),
        "parameters": known.get("parameters", ""),
        "compute_seconds": own.get("compute_seconds", 0.0),
        "pruning_seconds": own.get("pruning_seconds", 0.0),
        "measuring_seconds": known.get("measuring_seconds", 0.0),
    }


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Rows of a ledger. Raises UserError where it is missing."""
    with require(file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def judged(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the trainings that are judged, and variants of which one diverged, which are not."""
    reported = [row for row in rows if row["role"] == "judged"]
    diverged = dict.fromkeys(row["variant"] for row in reported if row["fid"] == "")
    return [row for row in reported if row["variant"] not in diverged], list(diverged)


def write(folder: Path, run: Path, declared: Declared, root: Path) -> list[str]:
    """Write the ledger of a run and the record of what made it; return a line for each rate at an edge."""
    rows = gather(run, declared)
    write_csv(folder / TRAININGS, rows)
    facts = read_json(run / "artifacts/data/facts.json")
    finished = [read_json(file) for file in figures_below(run)]
    seconds = sum(one.get(name, 0.0) for one in finished for name in ("compute_seconds", "pruning_seconds"))
    measuring = sum(float(row["measuring_seconds"]) for row in rows)
    conditions = next(one["conditions"] for one in finished if "conditions" in one)
    record = {
        "commit": (git("-C", str(root), "rev-parse", "HEAD") or "").strip() or None,
        "changed": bool(
            git("-C", str(root), "status", "--porcelain", "--untracked-files=no", "--", "unequal", "stages")
        ),
        "date": today(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "device": conditions["device"],
        "hours": round((seconds + measuring) / 3600, 2),
        "data": {name: facts[name] for name in ("source", "shape", "sha256") if name in facts},
        "fid_of_real_images": read_json(run / "results/fid/reference.json")["real_against_real"]["fid"],
        "conditions": conditions,
    }
    write_json(folder / RECORD, record)
    rated = [name for name in declared.variants if declared.experiment.rates and declared.training_of(name) == name]
    chosen = {name: read_json(run / f"artifacts/rates/{name}.json") for name in rated}
    return [
        f"{variant}: the best learning rate, {one['factor']:g} times its own, is at the edge; add factors beyond it"
        for variant, one in chosen.items()
        if one["at_edge"]
    ]


def figures_below(run: Path) -> Iterator[Path]:
    """Figures of all trainings and measurements of a run's graph; a folder may hold those of earlier ones too."""
    for stage in read_yaml(run / "dvc.yaml")["stages"].values():
        paths = [path for metric in stage.get("metrics", ()) for path in metric]
        yield from (run / path for path in paths if path.startswith(("results/trainings/", "results/endpoints/")))
