"""Params file for a folder of images: a preset, adapted to the images, the size and this machine."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from unequal.cli.editing import change, in_a_line, text_of, yaml_of_file
from unequal.cli.preset_text import (
    METHODS,
    apply_method,
    headed,
    is_untouched,
    make_flow,
    predict,
    scale_budgets,
)
from unequal.cli.survey import Survey
from unequal.errors import UserError
from unequal.settings.params import Params
from unequal.settings.strict import PARAMS

PRESETS = Path("presets")
#: Desired number of held-out images, limited to a fifth of all images.
HELD_OUT, LARGEST_SHARE = 100, 0.2
#: Smallest number of images: a fifth of them are the two that must be held out.
FEWEST = 8
#: Largest number of passes over the training images: beyond it, the base memorizes a small set.
MOST_PASSES = 1000


@dataclass(frozen=True)
class Network:
    """Channels at each resolution, feature-map sizes with attention, and batch sizes.

    Attributes:
        batch: batch size in training; `sampled`: in sampling and profiling.
    """

    channels: list[int]
    attention: list[int]
    batch: int
    sampled: int


#: With and without a GPU: image size → network. Those for a GPU extend the network of own-images-32 by further levels.
NETWORKS = {
    True: {
        16: Network([64, 128], [8], 128, 1000),
        32: Network([64, 128, 128], [16], 128, 500),
        64: Network([64, 128, 128, 192], [16], 64, 250),
        128: Network([64, 96, 128, 192, 256], [16], 32, 100),
    },
    False: {
        16: Network([32, 64], [8], 64, 250),
        32: Network([32, 64, 64], [8], 64, 125),
        64: Network([32, 48, 64, 96], [8], 32, 50),
        128: Network([16, 32, 64, 64, 96], [8], 16, 25),
    },
}


@dataclass(frozen=True)
class Features:
    """Features that FID compares, and the reason for the choice."""

    settings: dict[str, Any]
    why: str

    @classmethod
    def of(cls, survey: Survey, inception: Path | None, dinov2: Path | None) -> Self:
        """Features of Inception or DINOv2 if weights are given, else of a network trained on the images."""
        if inception is not None:
            return cls({"kind": "inception", "weights": str(inception), "features": 2048}, "from the given weights")
        if dinov2 is not None:
            from unequal.evaluation.dinov2 import check_files, dinov2_of

            check_files(dinov2, f"--dinov2 {dinov2}")
            features = dinov2_of(dinov2, f"--dinov2 {dinov2}").features
            return cls({"kind": "dinov2", "weights": str(dinov2), "features": features}, "from the given weights")
        small: dict[str, Any] = {"weights": None, "features": 64, "images": 128_000}
        if survey.labels:
            return cls({"kind": "classifier"} | small, f"learned from the {survey.labels} classes of these images")
        return cls({"kind": "rotations"} | small, "learned from rotations of these images, which need no labels")


@dataclass(frozen=True)
class ParamsRequest:
    """A params file to write for a folder of images.

    Attributes:
        size: height and width of images, in pixels.
        gpu: whether the run is for a GPU; otherwise it is a trial on a CPU.
        flow: rectified flow in place of DDPM's schedule.
        prediction: prediction of models without `flow`; with `flow`, models predict the velocity.
        method: timesteps and loss weight, a name of `METHODS`; None: Min-SNR for a flow, else uniform.
        batch_size: batch size in training; None: the network's own.
        inception, dinov2: weights for FID's features.
    """

    images: Path
    size: int
    gpu: bool
    out: Path
    flow: bool = False
    prediction: str | None = None
    method: str | None = None
    batch_size: int | None = None
    inception: Path | None = None
    dinov2: Path | None = None

    def write(self) -> Iterator[str]:
        """Write the params file; yield lines on the images, the choices and the cost. Raises UserError."""
        refuse_edited(self.out)
        if self.flow and self.prediction is not None:
            raise UserError(f"--prediction {self.prediction}: --flow predicts the velocity; allowed: one of the two")
        preset = PRESETS / ("own-images-32.yaml" if self.gpu else "own-images-cpu.yaml")
        if not preset.exists():
            raise UserError(f"{preset}: missing; run from the project's folder")
        survey = Survey.of(self.images, self.size)
        if len(survey.files) < FEWEST:
            raise UserError(f"{self.images}: {len(survey.files)} images; allowed: at least {FEWEST}")
        yield f"{self.images}: {survey.summary()}"
        yield from (f"  note: {line}" for line in survey.oddities(self.size))
        features = Features.of(survey, self.inception, self.dinov2)
        text, choices = adapted_preset(preset.read_text(encoding="utf-8"), self, survey, features)
        beside = self.out.with_name(f".{self.out.name}.new")
        beside.write_text(headed(text, str(self.images), self.command), encoding="utf-8")
        try:
            params = Params.read(beside)
        except UserError:
            beside.unlink()
            raise
        before = ", in the place of the file before" if self.out.exists() else ""
        os.replace(beside, self.out)
        yield f"{self.out}: from {preset}{before}"
        yield from (f"  {line}" for line in choices)
        yield from self.cost(params)
        yield from self.next_steps()

    @property
    def learned_by(self) -> str:
        """Name of the method."""
        return self.method or ("min_snr" if self.flow else "uniform")

    @property
    def command(self) -> str:
        """Command line that writes this file again."""
        words: list[object] = ["unequal init --images", self.images, "--size", self.size]
        words += [f"--{name}" for name in ("gpu", "flow") if getattr(self, name)]
        for name in ("prediction", "method", "batch_size", "inception", "dinov2"):
            if (value := getattr(self, name)) is not None:
                words += [f"--{name.replace('_', '-')}", value]
        return " ".join(map(str, words))

    def cost(self, params: Params) -> Iterator[str]:
        """Yield lines on the cost, measured on this machine unless the run is for a GPU and there is none."""
        import torch

        from unequal.cli.estimate import brief, extent
        from unequal.cli.machine import busy

        yield f"cost: {extent(params)}"
        if self.gpu and not torch.cuda.is_available():
            yield f"  time: no GPU is here to measure it; where one is, `unequal estimate {self.out}` does"
            return
        yield "  time: runs a few training steps to measure it …"
        yield f"  time: {brief(params)}"
        yield from (f"  {line}" for line in busy(params))

    def next_steps(self) -> Iterator[str]:
        """Yield lines with the next commands."""
        file = "" if self.out == PARAMS else f" {self.out}"
        ready = "" if self.out == PARAMS else f"cp {self.out} {PARAMS}; "
        yield f"next: unequal check{file}; unequal try{file}  # every stage, with small budgets"
        yield f"  then, to try all methods once: {ready}snakemake --cores all"


def refuse_edited(out: Path) -> None:
    """Raise UserError where edits would be lost: the file differs from what `unequal init` wrote, and git lacks it."""
    if not out.exists() or is_untouched(out.read_text(encoding="utf-8", errors="replace")):
        return
    command = ["git", "diff", "--quiet", "HEAD", "--", str(out)]
    tracked = ["git", "ls-files", "--error-unmatch", str(out)]
    if shutil.which("git") and all(
        subprocess.run(one, capture_output=True, check=False).returncode == 0 for one in (tracked, command)
    ):
        return
    raise UserError(
        f"{out}: holds edits that git does not have, and would be overwritten; commit it, move it away, or "
        f"write another file: --out {out.with_stem(f'{out.stem}-2')}"
    )


def adapted_preset(text: str, asked: ParamsRequest, survey: Survey, features: Features) -> tuple[str, list[str]]:
    """Adapt a preset's text to the images; return it with lines on the choices and their reasons."""
    size, count, network = asked.size, len(survey.files), NETWORKS[asked.gpu][asked.size]
    share = max(0.05, min(LARGEST_SHARE, round(HELD_OUT / count, 2)))
    train = count - round(count * share)
    batch = asked.batch_size or network.batch
    yaml = yaml_of_file(width=4096)  # no line of the preset is wrapped
    preset = yaml.load(text)
    if asked.flow:
        make_flow(preset)
    elif asked.prediction is not None:
        predict(preset, asked.prediction)
    apply_method(preset, METHODS[asked.learned_by])
    budget, wanted = scale_budgets(preset, MOST_PASSES * train, batch)
    threads = 1 if asked.gpu else max(1, len(os.sched_getaffinity(0)) // 2)
    singular = train // 2 < features.settings["features"]
    values = values_for_images(asked, survey, features, share) | {
        "runtime.threads": threads,
        "network.block_out_channels": network.channels,
        "network.attention_resolutions": network.attention,
        "training.batch_size": batch,
        "profile.batch_size": network.sampled,
        "sampling.batch_size": network.sampled,
        "evaluation.kid_subset": min(500, train // 2),
        "evaluation.allow_singular": singular,
    }
    change(preset, {key: in_a_line(value) for key, value in values.items()})
    more = f"; {wanted:,} would be more than {MOST_PASSES:,} passes, and memorize them" if budget < wanted else ""
    choices = [
        f"data: {size} pixels, {'RGB' if survey.channels == 3 else 'grey'}, {survey.fitted(size)}",
        "flips: on; set training.horizontal_flips: false where left and right mean something, as in text or logos",
        f"held out: {count - train} images ({100 * share:.0f} %), for losses that training does not see",
        f"base: {budget:,} images, {budget / train:,.0f} passes over {train:,} images{more}",
        *methods_chosen(asked),
        f"FID's features: {features.settings['kind']}, {features.why}",
    ]
    if survey.labels:
        choices.append("labels: for these features alone; the network sees none unless network.condition says so")
    if threads > 1:
        choices.append(f"threads: {threads} a stage, so that two trainings run next to each other")
    if singular:
        choices.append(
            f"FID: half of {train} images are fewer than the {features.settings['features']} features "
            "(evaluation.allow_singular); compare its rows with each other only"
        )
    return text_of(preset, yaml), choices


def values_for_images(asked: ParamsRequest, survey: Survey, features: Features, holdout: float) -> dict[str, Any]:
    """Values at dotted keys that say which images there are, and by which features and how many samples FID goes."""
    path = asked.images if asked.out.parent == Path() else Path(os.path.abspath(asked.images))
    return {
        "data.path": str(path),
        "data.image_size": asked.size,
        "data.channels": survey.channels,
        "data.fit": "exact" if survey.fits(asked.size) else "crop",
        "data.holdout": holdout,
        "evaluation.samples": max(5000 if asked.gpu else 1000, features.settings["features"]),
    } | {f"extractor.{key}": value for key, value in features.settings.items()}


def methods_chosen(asked: ParamsRequest) -> Iterator[str]:
    """Yield lines on schedule, timesteps, batch and sampling, with the evidence for each choice."""
    method = METHODS[asked.learned_by]
    if asked.flow:
        yield "schedule: flow, which predicts the velocity; two experts hand over where SNR is 1 (groups.kind: snr)"
        yield f"method: {asked.learned_by}: {method.measured} on CIFAR-10 at 8 pixels against uniform timesteps"
    else:
        measured = "" if asked.method in (None, "uniform") else ", which was measured for flows alone"
        yield f"schedule: linear; prediction: {asked.prediction or 'epsilon'}; method: {asked.learned_by}{measured}"
        yield (
            "  --prediction v_prediction: FID 71.7 % lower than epsilon's in a race of short trainings on icons, "
            "not testable on CIFAR-10 at 8 pixels"
        )
        yield "  --flow chooses a rectified flow with two experts; whether a flow beats this schedule was not compared"
    if asked.batch_size is not None:
        yield f"batch: {asked.batch_size} images, at the preset's learning rate"
    where = "CIFAR-10 at 8 pixels with a linear schedule" if asked.flow else "CIFAR-10 at 8 pixels"
    yield f"sampling: DPM-Solver++ over EDM's levels, the best of 18 ways on {where}; not tried on yours"
    yield "  sampling.steps: 15 calls; 31 gave no lower FID there"
