"""A params file for a folder of images: a preset, fitted to the images, the size and this machine."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from unequal.cli.survey import Survey
from unequal.errors import UserError
from unequal.settings.params import Params
from unequal.settings.strict import PARAMS

PRESETS = Path("presets")
#: Held-out images that figures should have, as far as a fifth of all allows.
HELD_OUT, LARGEST_SHARE = 100, 0.2
#: Passes over the training images after which the base has seen enough of few images.
MOST_PASSES = 1000
#: Schema by which editors complete the file.
SCHEMA = "# yaml-language-server: $schema=params.schema.json"


@dataclass(frozen=True)
class Network:
    """Channels of each resolution, feature-map sizes with attention, and images that go through it at once.

    Attributes:
        batch: in training; `sampled` in sampling and profiling.
    """

    channels: list[int]
    attention: list[int]
    batch: int
    sampled: int


#: With and without a GPU, image size → network. A GPU's are those of own-images-32, with further levels.
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
    """Features that FID compares, and why these."""

    settings: dict[str, Any]
    why: str

    @classmethod
    def of(cls, survey: Survey, inception: Path | None, dinov2: Path | None) -> Self:
        """Inception's or DINOv2's where weights are given, else those of a network trained on the images."""
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
    """A params file to write: the folder of images, their size, a GPU or none, and weights for FID's features."""

    images: Path
    size: int
    gpu: bool
    out: Path
    inception: Path | None = None
    dinov2: Path | None = None

    def write(self) -> Iterator[str]:
        """Write the params file; yield lines on the images, the choices and the cost. Raises UserError."""
        refuse_unsaved(self.out)
        preset = PRESETS / ("own-images-32.yaml" if self.gpu else "own-images-cpu.yaml")
        if not preset.exists():
            raise UserError(f"{preset}: missing; run from the project's folder")
        survey = Survey.of(self.images, self.size)
        yield f"{self.images}: {survey.summary()}"
        yield from (f"  odd: {line}" for line in survey.oddities(self.size))
        features = Features.of(survey, self.inception, self.dinov2)
        text, choices = fitted(preset.read_text(encoding="utf-8"), self, survey, features)
        beside = self.out.with_name(f".{self.out.name}.new")
        beside.write_text(headed(text, self), encoding="utf-8")
        try:
            params = Params.read(beside)
        except UserError:
            beside.unlink()
            raise
        os.replace(beside, self.out)
        yield f"{self.out}: from {preset}"
        yield from (f"  {line}" for line in choices)
        yield f"cost: {self.cost(params)}"
        ready = "" if self.out.name == PARAMS.name else f"; cp {self.out} {PARAMS}"
        yield f"next: unequal check {self.out}; unequal try {self.out}{ready}; snakemake --cores all"

    def cost(self, params: Params) -> str:
        """A line on the cost: measured here, unless it is for a GPU and there is none."""
        import torch

        from unequal.cli.estimate import brief

        if self.gpu and not torch.cuda.is_available():
            return "no GPU here; `unequal estimate` measures it on the machine that has one"
        return brief(params)


def refuse_unsaved(out: Path) -> None:
    """Raise UserError where a params file would be lost: one that stands there and is not as git holds it."""
    if not out.exists():
        return
    command = ["git", "diff", "--quiet", "HEAD", "--", str(out)]
    tracked = ["git", "ls-files", "--error-unmatch", str(out)]
    if shutil.which("git") and all(
        subprocess.run(one, capture_output=True, check=False).returncode == 0 for one in (tracked, command)
    ):
        return
    raise UserError(f"{out}: would be overwritten, and git does not hold it as it is; commit it, or name another --out")


def fitted(text: str, asked: ParamsRequest, survey: Survey, features: Features) -> tuple[str, list[str]]:
    """A preset's text, fitted to the images, and lines on what was chosen and why."""
    size, count, network = asked.size, len(survey.files), NETWORKS[asked.gpu][asked.size]
    share = max(0.05, min(LARGEST_SHARE, round(HELD_OUT / count, 2)))
    exact, train = survey.fits(size), count - round(count * share)
    path = asked.images if asked.out.parent == Path() else Path(os.path.abspath(asked.images))
    text, budget, wanted = scaled(text, MOST_PASSES * train, network.batch)
    threads = 1 if asked.gpu else max(1, len(os.sched_getaffinity(0)) // 2)
    samples = max(5000 if asked.gpu else 1000, features.settings["features"])
    singular = train // 2 < features.settings["features"]
    changes: dict[str, dict[str, Any]] = {
        "runtime": {"threads": threads},
        "data": {
            "path": str(path),
            "image_size": size,
            "channels": survey.channels,
            "fit": "exact" if exact else "crop",
            "holdout": share,
        },
        "network": {"block_out_channels": network.channels, "attention_resolutions": network.attention},
        "training": {"batch_size": network.batch},
        "profile": {"batch_size": network.sampled},
        "extractor": features.settings,
        "sampling": {"batch_size": network.sampled},
        "evaluation": {"samples": samples, "kid_subset": min(500, train // 2), "allow_singular": singular},
    }
    for section, values in changes.items():
        for key, value in values.items():
            text = replaced(text, section, key, value)
    more = f"; {wanted} would be more than {MOST_PASSES}, and memorize them" if budget < wanted else ""
    choices = [
        f"data: {size} pixels, {'RGB' if survey.channels == 3 else 'grey'}, {'as they are' if exact else 'cropped'}",
        f"held out: {count - train} images ({100 * share:.0f} %), for losses that training does not see",
        f"base: {budget} images, {budget / train:.0f} passes over {train} images{more}",
        f"FID's features: {features.settings['kind']}, {features.why}",
        "sampling: DPM-Solver++ over EDM's levels, the best of 18 ways on CIFAR-10 at 8 pixels; not tried on yours",
    ]
    if threads > 1:
        choices.append(f"threads: {threads} a stage, so that two trainings run next to each other")
    if singular:
        choices.append(
            f"FID: half of {train} images are fewer than the features; compare its rows with each other only"
        )
    return text, choices


def replaced(text: str, section: str, key: str, value: Any) -> str:
    """The text of a params file with another value of a key of a section; comments stay."""
    pattern = re.compile(rf"(^{section}:.*\n(?:[ #].*\n)*?  {key}: )([^#\n]*?)( *(?:#.*)?)$", re.MULTILINE)
    new, count = pattern.subn(
        lambda match: f"{match[1]}{json.dumps(value, ensure_ascii=False)}{match[3]}", text, count=1
    )
    if not count:
        raise KeyError(f"{section}.{key}")
    return new


def scaled(text: str, most: int, batch: int) -> tuple[str, int, int]:
    """Scale all budgets of a params file alike, so that the base sees at most so many images.

    Budgets stay whole multiples of the least one, and that of the batch, so that equal compute stays equal.

    Returns:
        The text, the base's budget, and the base's former one.
    """
    start, end = text.index("\nrecipes:"), text.index("\nfinetune_recipes:")
    recipes = text[start:end]
    budgets = [int(one) for one in re.findall(r"^    images: (\d+)", recipes, re.MULTILINE)]
    least, base = min(budgets), budgets[0]
    unit = max(1, int(min(1, most / base) * least / batch)) * batch
    recipes = re.sub(r"images: (\d+)", lambda match: f"images: {int(match[1]) * unit // least}", recipes)
    return text[:start] + recipes + text[end:], base // least * unit, base


def headed(text: str, asked: ParamsRequest) -> str:
    """The file's text with comments that are true of it."""
    body = text.split("\n", 2)[2]
    body = re.sub(r"^network:.*$", "network:", body, flags=re.MULTILINE)
    command = f"unequal init --images {asked.images} --size {asked.size}{' --gpu' if asked.gpu else ''}"
    return f"{SCHEMA}\n# Settings for the images of {asked.images}, made by `{command}`.\n{body}"
