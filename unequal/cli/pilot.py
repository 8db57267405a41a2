"""Run a study's pilot, or continue it, and print what the study can detect.

The trainings are stages of the study's own graph; Snakemake runs those alone that the pilot needs.
"""

from pathlib import Path
from typing import Any

from unequal.cli.estimate import readable
from unequal.errors import UserError
from unequal.files import read_json
from unequal.pipeline.engines import snakemake
from unequal.pipeline.workdirs import checkout

#: The stage that ends a pilot, behind the gate, on which nothing waits for Snakemake; and what it writes.
TARGETS, PILOT = ("check_params", "judge_pilot"), Path("results/pilot.json")
#: What Snakemake says where another one is at work in the same folder.
LOCKED = "Directory cannot be locked"


def run_pilot(folder: Path, cores: int) -> dict[str, Any]:
    """Run the pilot of the study in a folder; what it tells. Raises UserError where it fails."""
    if not (folder / "dvc.yaml").exists():
        raise UserError(f"{folder}: no study; allowed: a folder with params.yaml and dvc.yaml")
    root = checkout(folder)
    done = snakemake(root, folder.relative_to(root), {}, "--cores", str(cores), *TARGETS)
    if done.returncode and LOCKED in done.stdout:
        raise UserError(f"{folder}: another run is under way there; wait until it has ended")
    if done.returncode:
        raise UserError(f"{folder}: the pilot failed; its logs are in {folder / 'logs'}\n{done.stdout[-2000:]}")
    found: dict[str, Any] = read_json(folder / PILOT)
    return found


def lines(found: dict[str, Any]) -> list[str]:
    """What a pilot tells, as text."""
    heads = " ".join(f"{head:>8}" for head in ("δ", "visible", "needed", "sd", "≤"))
    told = [
        f"{'endpoint':24} {heads} {'ν':>3} {'doubling':>9} {'images for δ':>12} {'blocks needed':>13} {'they take':>9}"
    ]
    for name, one in found["endpoints"].items():
        shares = [one[what] for what in ("delta", "visible_effect", "needed", "deviation", "upper_deviation")]
        blocks = one["blocks_needed"] or "> 40"
        taken = price(one["blocks_needed"], found["block_seconds"])
        told.append(
            f"{name:24} {' '.join(f'{share:8.2%}' for share in shares)} {one['freedom']:3} "
            f"{one['slope_per_doubling']:+9.2%} {times(one['images_worth_delta']):>12} {blocks:>13} {taken:>9}"
        )
    told += [f"{arm}: best of {', '.join(one['tried'])}: {one['best']}" for arm, one in found["tries"].items()]
    told.append(f"the study as planned, on one thread here: {readable(found['study_seconds'])}")
    return told


def times(images: float | None) -> str:
    """How many times as many images bring the endpoint down by δ; none do where it no longer falls."""
    return "–" if images is None else f"× {images:.2f}"


def price(blocks: int | None, seconds: float) -> str:
    """What so many blocks take on one thread."""
    return "–" if blocks is None else readable(blocks * seconds)
