"""What was measured as rows and as text: scores of variants, changes of loss by slot, numbers for people."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from unequal.measures.loss_profile import relative_change
from unequal.timesteps.partition import Partition

SLOT_CHANGE_COLUMNS = ("split", "finetuned_slot", "slot", "change_percent", "stderr_percent")
PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")


@dataclass(frozen=True)
class Variant:
    """Scores and costs of a model or a set of experts.

    FLOPs are multiply–accumulates; `fid_sd` and its like are standard deviations over sampling
    seeds, None where there was one seed only; `steps` are the sampling steps of each expert, from
    the data end to the noise end (of a single model: all); `fid_half` is the FID of the first half
    of the samples. None: not measured.
    """

    name: str
    fid: float
    fid_sd: float | None
    kid: float
    kid_sd: float | None
    seeds: int
    images_seen: int
    training_flops: int
    sampling_flops: int
    parameters: int
    steps: tuple[int, ...]
    fid_half: float | None = None
    precision: float | None = None
    precision_sd: float | None = None
    recall: float | None = None
    recall_sd: float | None = None

    @property
    def idle(self) -> list[int]:
        """Numbers of the experts that no sampling step calls, and that no score therefore speaks of."""
        return [number for number, count in enumerate(self.steps) if count == 0]

    @classmethod
    def of(cls, name: str, facts: Mapping[str, Any]) -> Self:
        """From the figures of results/fid/<name>.json."""
        seeds = len(facts["sampling_seeds"])
        spreads = {name: facts[f"{name}_sd"] if seeds > 1 else None for name in ("fid", "kid", "precision", "recall")}
        return cls(
            name=name,
            fid=facts["fid_mean"],
            fid_sd=spreads["fid"],
            kid=facts["kid_mean"],
            kid_sd=spreads["kid"],
            fid_half=facts["fid_half_mean"],
            precision=facts["precision_mean"],
            precision_sd=spreads["precision"],
            recall=facts["recall_mean"],
            recall_sd=spreads["recall"],
            seeds=seeds,
            images_seen=facts["images_seen"],
            training_flops=facts["training_flops"],
            sampling_flops=facts["sampling_flops_per_image"],
            parameters=facts["parameters"],
            steps=tuple(facts["sampling_steps_per_expert"]),
        )


def steps_of_experts(variants: Mapping[str, Variant]) -> tuple[int, ...]:
    """Sampling steps of each group's expert; none where no experts were scored."""
    return next((one.steps for name, one in variants.items() if name.startswith("experts_")), ())


@dataclass(frozen=True)
class Change:
    """By what share the summed loss of a slot changed when the base was trained on inside another or the same.

    Slots count from 1; `stderr` is the standard error of paired draws.
    """

    finetuned: int
    slot: int
    change: float
    stderr: float

    @property
    def own(self) -> bool:
        """Whether it is the slot that was trained on."""
        return self.finetuned == self.slot


def changes(finetuned: int, before: np.ndarray, after: np.ndarray, slots: Partition) -> list[Change]:
    """The change of every slot's loss.

    Args:
        finetuned: the slot that was trained on, counted from 1.
        before, after: losses of the same draws, [T, n].
        slots: of the T timesteps.
    """
    found = [relative_change(before[slot.slice], after[slot.slice]) for slot in slots]
    return [Change(finetuned, number, *change) for number, change in enumerate(found, 1)]


def fid_rows(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The FID table as rows of a CSV; what is unknown is left empty, several steps stand apart by blanks."""
    rows = [{"variant": variant.name} | asdict(variant) for variant in variants]
    return [
        {key: value for key, value in row.items() if key != "name"} | {"steps": " ".join(map(str, row["steps"]))}
        for row in rows
    ]


def slot_change_rows(by_split: Mapping[str, Sequence[Change]]) -> list[dict[str, Any]]:
    """Changes of the loss by slot as rows of a CSV, shares as percentages."""
    return [
        dict(
            zip(
                SLOT_CHANGE_COLUMNS,
                (split, one.finetuned, one.slot, 100 * one.change, 100 * one.stderr),
                strict=True,
            )
        )
        for split, found in by_split.items()
        for one in found
    ]


def label(name: str) -> str:
    """The name of a model as people read it."""
    return name.replace("_", " ")


def with_prefix(value: float) -> str:
    """Three significant digits with a prefix: 160000 → `160 k`, 2.21e12 → `2.21 T`."""
    power = 0 if value == 0 else min(max(0, math.floor(math.log10(abs(value)) / 3)), len(PREFIXES) - 1)
    if float(f"{value / 1000**power:.3g}") >= 1000 and power < len(PREFIXES) - 1:
        power += 1
    scaled = value / 1000**power
    digits = 0 if scaled == 0 else max(0, 2 - math.floor(math.log10(float(f"{abs(scaled):.3g}"))))
    text = f"{scaled:.{0 if power == 0 and scaled == int(scaled) else digits}f}"
    return f"{text} {PREFIXES[power]}".strip()


def percent(share: float, sign: bool = False) -> str:
    """A share of 1 in per cent, to three digits, at most two of them decimals."""
    text = f"{100 * share:{'+' if sign else ''}.{1 if abs(share) >= 0.1 else 2}f} %"
    return text.replace("-", "−")


def either_way(effect: float) -> str:
    """A difference in the logarithm as a change upwards and downwards, which are unlike in per cent."""
    up, down = (percent(math.expm1(one), sign=True) for one in (effect, -effect))
    return f"{up} or {down}"


def plus_minus(mean: float, spread: float | None, signed: bool = False) -> str:
    """Mean and spread with as many decimals as the spread's first two digits need: `12.31 ± 0.24`."""
    # Rounded first: of 0.0996 the two digits are 0.10, not 0.100.
    leading = float(f"{spread or abs(mean) / 10:.1e}")
    decimals = 0 if leading == 0 else max(0, 1 - math.floor(math.log10(leading)))
    shown = f"{mean:{'+' if signed else ''}.{decimals}f}".replace("-", "−")
    return shown if spread is None else f"{shown} ± {spread:.{decimals}f}"


def mean_and_sd(values: Sequence[float], signed: bool = False) -> str:
    """Mean ± standard deviation as text; the mean alone where there is one value."""
    return plus_minus(statistics.fmean(values), sd(values) if len(values) > 1 else None, signed)


def sd(values: Sequence[float]) -> float:
    """Standard deviation of a few figures, 0 of one."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
