"""What is measured along a training: its endpoints and its curve at every snapshot, FID of half of the samples."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studies.blocks.measuring import Measuring
from unequal.evaluation.fidelity import half_of
from unequal.models.folder import load_record


def of_half_the_samples(measuring: Measuring) -> Measuring:
    """The same, but for half of the samples: sampling is most of what measuring costs.

    They are the first half of what the end is scored by, from the same noise: its `fid_half` is the FID of these.
    """
    chosen = measuring.settings.evaluation
    samples = half_of(chosen.samples)
    fewer = chosen.model_copy(update={"samples": samples, "kid_subset": min(samples, chosen.kid_subset)})
    return replace(measuring, settings=measuring.settings.model_copy(update={"evaluation": fewer}))


def point(folder: Path, figures: Mapping[str, Any], fid: float) -> dict[str, Any]:
    """A point of a path: images seen, endpoints with the FID of half of the samples, and losses over timesteps."""
    losses = figures["curve"]["loss"]
    return {"images": load_record(folder).images_seen} | figures["endpoints"] | {"fid": fid, "curve": losses}


def along(measuring: Measuring, snapshots: Sequence[Path], end: Path, name: str) -> dict[str, Any]:
    """What is measured of the end of a training, with its `path`; a name tells trainings apart."""
    figures, half = measuring.figures(end, name), of_half_the_samples(measuring)
    seconds, path = figures["costs"]["measuring_seconds"], []
    for folder in snapshots:
        found = half.figures(folder, f"{name}_{folder.name}")
        path.append(point(folder, found, found["endpoints"]["fid"]))
        seconds += found["costs"]["measuring_seconds"]
    path.append(point(end, figures, figures["scores"]["fid_half"]))
    return figures | {"costs": figures["costs"] | {"measuring_seconds": seconds}, "path": path}


def in_short(measuring: Measuring, half: Path, end: Path, name: str, snapshots: int) -> dict[str, Any]:
    """What a pilot measures: half of its images and the end, each by half of the samples.

    The seconds that it tells are those of a training with so many snapshots, whose end takes all samples.
    """
    cheap = of_half_the_samples(measuring)
    figures, before = cheap.figures(end, name), cheap.figures(half, f"{name}_half")
    path = [point(at, one, one["endpoints"]["fid"]) for at, one in ((half, before), (end, figures))]
    seconds = (snapshots + 2) * figures["costs"]["measuring_seconds"]
    costs = figures["costs"] | {"measuring_seconds": seconds}
    return figures | {"costs": costs, "half": before["endpoints"], "path": path}
