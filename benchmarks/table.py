"""The recorded figures as the tables of docs/performance.md: `python -m benchmarks --table`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.timing import RESULTS, ratio, recorded
from unequal.runtime.files import read_json

Figures = Mapping[str, Any]
#: Contestants of a training, by name, and as a column names them.
LOOPS = {
    "ours": "this project's",
    "minimal": "minimal",
    "documented": "diffusers' documented",
    "passes": "the passes alone",
}
#: Ending of a contestant's name → how a row says that its network is called.
ENDINGS = {"": "", "_compiled": ", compiled", "_graphs": ", from CUDA graphs"}
#: Benchmark of training loops → its network.
NETWORKS = {
    "training_digits": "digits net",
    "training_digits_32": "digits net",
    "training_cifar10": "DDPM's CIFAR-10 net",
    "training_unet": "U-Net, 16 × 16 pixels",
    "training_dit": "DiT 96 × 4, 16 × 16 pixels",
    "training_dit_b": "DiT-B/2, 32 × 32 × 4 latents",
}


def spread(values: Mapping[str, float]) -> str:
    """Format a ratio with its quartiles."""
    return f"{values['median']:.2f} ({values['low']:.2f} … {values['high']:.2f})"


def loops(name: str, figures: Figures) -> list[str]:
    """Format a benchmark of training loops: a row for each way in which networks were called."""
    seconds, rows = figures["seconds"], []
    for ending, description in ENDINGS.items():
        if f"ours{ending}" in seconds:
            taken = [seconds.get(f"{loop}{ending}") for loop in LOOPS]
            cells = [spread(ratio(times, seconds["passes"])) if times else "" for times in taken]
            utilisation = figures.get("mfu", {}).get(f"ours{ending}")
            mfu = "" if utilisation is None else f", MFU {utilisation:.1%}"
            rows.append(
                f"| {NETWORKS[name]}, batch of {figures['batch_size']}{description}{mfu} | {' | '.join(cells)} |"
            )
    return rows


def pipelines(figures: Figures) -> str:
    """Format the speed over diffusers' pipeline; where it was measured, compiled in bf16, and over bare passes."""
    seconds, text = figures["seconds"], spread(figures["ratio"])
    if "ours_fast" in seconds:
        text += f"; compiled in bf16 {spread(ratio(seconds['diffusers'], seconds['ours_fast']))}"
        text += f"; time over such bare passes {spread(ratio(seconds['ours_fast'], seconds['passes_fast']))}"
    return text


def experts(figures: Figures) -> str:
    """Format the time of pruned experts, and the FLOPs that should bound it."""
    pruned = figures["experts_pruned"]
    return f"{pruned['time_ratio']:.2f} of the time for {pruned['flops_ratio']:.2f} of the FLOPs"


def scoring(figures: Figures) -> str:
    """Format the speed of Inception, and the seconds of each distance."""
    distances = {name: median(taken) for name, taken in figures["seconds"].items() if name != "features"}
    return (
        f"Inception {figures['images_per_second']:,.0f} images/s; two sets of {figures['count']:,} × "
        f"{figures['features']:,} features: {', '.join(f'{name} {taken:.2g} s' for name, taken in distances.items())}"
    )


def overhead(figures: Figures) -> str:
    """Format the seconds of engines, and a stage's start over its imports."""
    seconds = [
        f"`{name}` {taken:.1f} s" for name, taken in figures["seconds"].items() if name in ("dvc repro", "snakemake -n")
    ]
    return "; ".join([", ".join(seconds), spread(figures["start_over_imports"])])


def shares(parts: Mapping[str, float]) -> str:
    """Format shares by name."""
    return ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for name, share in parts.items())


#: Name of a benchmark → what its row says, and how.
ROWS: dict[str, tuple[str, Callable[[Figures], str]]] = {
    "pipeline_digits": ("DDIM, digits net: speed over DDIMPipeline's", pipelines),
    "pipeline_colour": ("DDIM, 7 M net: speed over DDIMPipeline's", pipelines),
    "pipeline_cifar10": ("DDIM, DDPM's CIFAR-10 net: speed over DDIMPipeline's", pipelines),
    "scoring": ("scoring", scoring),
    "experts_digits": ("pruned experts, digits net", experts),
    "experts_colour": ("pruned experts, 7 M net", experts),
    "experts_cifar10": ("pruned experts, IDDPM's CIFAR-10 net", experts),
    "data": (
        "waiting for 100 k images of 64×64 on disk, share of a step",
        lambda figures: shares({name: taken["share"] for name, taken in figures["seconds"].items()}),
    ),
    "shares": ("share of a step", lambda figures: shares(figures["shares"])),
    "overhead": ("engines with nothing to do; a stage's start over bare imports", overhead),
}


def table(device: str = "cpu", folder: Path = RESULTS) -> str:
    """Format all figures of a kind of device as Markdown: training loops, then everything else."""
    path = recorded(device, folder)
    figures = read_json(path) if path.exists() else {}
    columns = ["time over that of the passes as they are", *LOOPS.values()]
    loop_rows = [row for name in NETWORKS if name in figures for row in loops(name, figures[name])]
    rows = [f"| {title} | {text(figures[name])} |" for name, (title, text) in ROWS.items() if name in figures]
    parts = []
    for head, body in ((columns, loop_rows), (["", "median (quartiles)"], rows)):
        parts += ["\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body])] if body else []
    return "\n\n".join(parts)
