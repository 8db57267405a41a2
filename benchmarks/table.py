"""The figures in benchmarks/cpu.json as the table of docs/performance.md: `python -m benchmarks --table`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.timing import RESULTS, recorded
from unequal.files import read_json

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


def faster(figures: Figures) -> str:
    """Speed over the documented loop's, in each way that was tried."""
    ways = {
        "compiled": "ratio_compiled",
        "its images decoded beforehand": "ratio_decoded",
        "the network's passes alone, which no loop can beat,": "ratio_of_passes",
    }
    others = [f"{way} {spread(figures[key])}" for way, key in ways.items() if key in figures]
    return "; ".join([f"{spread(figures['ratio'])} at a batch of {figures['batch_size']}", *others])


def growth(found: Mapping[str, float]) -> str:
    """Sizes, and the time that each takes of the first one's."""
    first, *_ = found.values()
    return f"{', '.join(found)}: {', '.join(f'{taken / first:.2f}' for taken in found.values())}"


def training(name: str) -> tuple[str, Callable[[Figures], str]]:
    """A row of a training."""
    return f"training, {name}: images/s over the documented loop's", faster


def beside_passes(name: str) -> tuple[str, Callable[[Figures], str]]:
    """A row of a training that is held against the network's passes alone."""
    what = f"training, {name}: time over that of the network's passes alone"
    return what, lambda one: f"{spread(one['time_over_passes'])} at a batch of {one['batch_size']}"


#: Name of a benchmark → what its row says, and how.
ROWS: dict[str, tuple[str, Callable[[Figures], str]]] = {
    "training_digits": training("digits net"),
    "training_cifar10": training("IDDPM's CIFAR-10 net"),
    "training_cifar10_single": training("IDDPM's CIFAR-10 net"),
    "passes_unet": beside_passes("a U-Net on 16 × 16 pixels"),
    "passes_dit": beside_passes("DiT 96 × 4 on 16 × 16 pixels"),
    "pipeline_digits": ("DDIM, digits net: speed over DDIMPipeline's", lambda one: spread(one["ratio"])),
    "pipeline_colour": ("DDIM, 7 M net: speed over DDIMPipeline's", lambda one: spread(one["ratio"])),
    "experts_digits": ("pruned experts, digits net", pruned),
    "experts_colour": ("pruned experts, 7 M net", pruned),
    "experts_cifar10": ("pruned experts, IDDPM's CIFAR-10 net", pruned),
    "profile": ("profile: share of the bare forward passes", lambda one: f"{one['share']:.2f}"),
    "data": ("waiting for 100 k images of 64×64 on disk, share of a step", waits),
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
    "growth": (
        "time, of the first one's",
        lambda one: "; ".join(f"{what} {growth(found)}" for what, found in one["seconds"].items()),
    ),
    "utilisation": (
        "model FLOPs utilisation, IDDPM's CIFAR-10 net",
        lambda one: f"{share(one['utilisation']['median'])} of the measured matmul rate, {one['precision']}",
    ),
}


def table(device: str = "cpu", folder: Path = RESULTS) -> str:
    """Markdown of all figures that there are of a kind of device."""
    path = recorded(device, folder)
    found = read_json(path) if path.exists() else {}
    lines = [f"| {what} | {shown(found[name])} |" for name, (what, shown) in ROWS.items() if name in found]
    return "\n".join(["| | median (quartiles) |", "|---|---|", *lines])
