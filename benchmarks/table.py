"""The figures in benchmarks/cpu.json as the table of docs/performance.md: `python -m benchmarks --table`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.timing import RESULTS, ratio, recorded
from unequal.runtime.files import read_json

Figures = Mapping[str, Any]


def spread(found: Mapping[str, float]) -> str:
    """A ratio with its quartiles."""
    return f"{found['median']:.2f} ({found['low']:.2f} … {found['high']:.2f})"


def share(part: float) -> str:
    """A share in per cent."""
    return f"{100 * part:.1f} %"


def pruned(figures: Figures) -> str:
    """Time of pruned experts, and the FLOPs that should bound it."""
    one = figures["experts_pruned"]
    return f"{one['time_ratio']:.2f} of the time for {one['flops_ratio']:.2f} of the FLOPs"


def waits(figures: Figures) -> str:
    """Waiting for data in each way of reading."""
    return ", ".join(f"{way.replace('_', ' ')} {share(one['share'])}" for way, one in figures["seconds"].items())


def full(figures: Figures) -> str:
    """Preparation of many images and its memory beyond that of few; the waits of a training."""
    one, few = figures["prepared"], figures["prepared_few"]
    speed = figures["images"] / (one["seconds"] - few["seconds"])
    memory = (one["bytes"] - few["bytes"]) / 1e6
    return f"prepared {speed:,.0f} images/s with {memory:.0f} MB more memory than a hundred; waiting: {waits(figures)}"


#: Contestants of a training, by name, and as a column names them.
LOOPS = {
    "ours": "this project's",
    "minimal": "minimal",
    "edm": "EDM-style",
    "documented_decoded": "diffusers' documented, images decoded beforehand",
    "documented": "diffusers' documented",
    "passes": "the passes alone",
}
#: Ending of a contestant's name → how a row says that its network is called.
WAYS = {"": "", "_compiled": ", compiled", "_graphs": ", from CUDA graphs"}
#: Benchmark of training loops → its network.
NETWORKS = {
    "training_digits": "digits net",
    "training_digits_32": "digits net",
    "training_cifar10": "DDPM's CIFAR-10 net",
    "training_iddpm": "IDDPM's CIFAR-10 net",
    "training_iddpm_single": "IDDPM's CIFAR-10 net",
    "training_unet": "U-Net, 16 × 16 pixels",
    "training_dit": "DiT 96 × 4, 16 × 16 pixels",
    "training_dit_b": "DiT-B/2, 32 × 32 × 4 latents",
}


def loops(name: str, figures: Figures) -> list[str]:
    """Rows of a benchmark of training loops: one for each way in which networks were called."""
    seconds, batch = figures["seconds"], figures["batch_size"]
    rows = []
    for suffix, way in WAYS.items():
        taken = [seconds.get(f"{loop}{suffix}") for loop in LOOPS]
        if any(taken):
            cells = [spread(ratio(one, seconds["passes"])) if one else "" for one in taken]
            utilisation = figures.get("mfu", {}).get(f"ours{suffix}")
            said = "" if utilisation is None else f", MFU {share(utilisation)}"
            rows.append(f"| {NETWORKS[name]}, batch of {batch}{way}{said} | {' | '.join(cells)} |")
    return rows


def pipelines(figures: Figures) -> str:
    """Speed over diffusers' pipeline; where it was measured, compiled in bf16, and next to such bare passes."""
    seconds, said = figures.get("seconds", {}), [spread(figures["ratio"])]
    if "ours_fast" in seconds:
        said += [f"compiled in bf16 {spread(ratio(seconds['diffusers'], seconds['ours_fast']))}"]
        said += [f"time over such bare passes {spread(ratio(seconds['ours_fast'], seconds['passes_fast']))}"]
    return "; ".join(said)


def scoring(figures: Figures) -> str:
    """Speed of Inception, and the seconds of each distance."""
    distances = {name: median(taken) for name, taken in figures["seconds"].items() if name != "features"}
    said = ", ".join(f"{name} {taken:.2g} s" for name, taken in distances.items())
    sizes = f"{figures['count']:,} × {figures['features']:,}"
    return f"Inception {figures['images_per_second']:,.0f} images/s; two sets of {sizes} features: {said}"


#: Name of a benchmark → what its row says, and how.
ROWS: dict[str, tuple[str, Callable[[Figures], str]]] = {
    "pipeline_digits": ("DDIM, digits net: speed over DDIMPipeline's", pipelines),
    "pipeline_colour": ("DDIM, 7 M net: speed over DDIMPipeline's", pipelines),
    "pipeline_cifar10": ("DDIM, DDPM's CIFAR-10 net: speed over DDIMPipeline's", pipelines),
    "scoring": ("scoring", scoring),
    "experts_digits": ("pruned experts, digits net", pruned),
    "experts_colour": ("pruned experts, 7 M net", pruned),
    "experts_cifar10": ("pruned experts, IDDPM's CIFAR-10 net", pruned),
    "profile": ("profile: share of the bare forward passes", lambda one: f"{one['share']:.2f}"),
    "data": ("waiting for 100 k images of 64×64 on disk, share of a step", waits),
    "data_full": ("1.28 M images of 16×16 in one file, batches of 128; share of a step", full),
    "shares": (
        "share of a step",
        lambda one: ", ".join(f"{part} {share(found)}" for part, found in one["shares"].items()),
    ),
    "own_loop": (
        "timesteps that are drawn and learned, share of a step's passes, digits net",
        lambda one: share(one["share"]["median"]),
    ),
    "gradient_surgery": (
        "gradient surgery between timesteps, five clusters, a U-Net on 16 × 16 pixels: time over that without one",
        lambda one: ", ".join(f"{surgery} {spread(found)}" for surgery, found in one["over_none"].items()),
    ),
    "checkpoint": ("checkpoints, share of a training of the digits net", lambda one: f"{100 * one['share']:.2f} %"),
    "overhead": (
        "engines with nothing to do; a stage's start over bare imports",
        lambda one: (
            f"`dvc repro` {one['seconds']['dvc repro']:.1f} s, `snakemake -n` {one['seconds']['snakemake -n']:.1f} s; "
            f"{spread(one['start_over_imports'])}"
        ),
    ),
}


def shown(name: str, figures: Figures) -> str:
    """A benchmark's figures as rows of a table."""
    if name in NETWORKS:
        return "\n".join(loops(name, figures))
    what, text = ROWS[name]
    return f"| {what} | {text(figures)} |"


def table(device: str = "cpu", folder: Path = RESULTS) -> str:
    """Markdown of all figures that there are of a kind of device: training loops, then everything else."""
    path = recorded(device, folder)
    found = read_json(path) if path.exists() else {}
    loops_head = (
        f"| time over that of the passes as they are | {' | '.join(LOOPS.values())} |\n|---{'|---' * len(LOOPS)}|"
    )
    parts = []
    for head, names in ((loops_head, NETWORKS), ("| | median (quartiles) |\n|---|---|", ROWS)):
        rows = [shown(name, found[name]) for name in names if name in found]
        parts += ["\n".join([head, *rows])] if rows else []
    return "\n\n".join(parts)
