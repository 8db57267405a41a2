"""Folder of a run's own: a preset fitted to a folder of images and to this machine, or a preset as it stands."""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from unequal.cli.preset import (
    METHODS,
    apply_method,
    change,
    edited,
    is_untouched,
    make_flow,
    predict,
    scale_budgets,
    with_header,
    yaml_of_file,
)
from unequal.cli.survey import Survey
from unequal.errors import UserError
from unequal.pipeline.folders import make_folder, shipped
from unequal.settings.params import Params
from unequal.settings.strict import PARAMS

#: Desired number of held-out images, limited to a fifth of all images.
HELD_OUT, LARGEST_SHARE = 100, 0.2
#: Smallest number of images: a fifth of them are the two that must be held out.
FEWEST = 8
#: Largest number of passes over the training images: beyond it, the base memorizes a small set.
MOST_PASSES = 1000
#: Lists of the models that are scored and profiled, which decide the folder's graph.
MODELS = ("scored_models", "profiled_models")


class Network(NamedTuple):
    """Channels at each resolution, feature-map sizes with attention, and batch sizes in training and in sampling."""

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
class FolderRequest:
    """A folder to make.

    Attributes:
        images: a folder of images; None: the preset as it stands.
        size: height and width of images, in pixels.
        preset: name of a preset; None: one for images, by `gpu`.
        gpu: whether the run is for a GPU; otherwise it is a trial on a CPU.
        flow: rectified flow in place of DDPM's schedule.
        prediction: prediction of models without `flow`; with `flow`, models predict the velocity.
        method: timesteps and loss weight, a name of `METHODS`; None: Min-SNR for a flow, else uniform.
        batch_size: batch size in training; None: the network's own.
        inception, dinov2: weights for FID's features.
        all_methods: train all models of the preset; otherwise its base alone.
        own_graph: the graph is not brought up to date.
    """

    name: Path
    images: Path | None = None
    size: int | None = None
    preset: str | None = None
    gpu: bool = False
    flow: bool = False
    prediction: str | None = None
    method: str | None = None
    batch_size: int | None = None
    inception: Path | None = None
    dinov2: Path | None = None
    all_methods: bool = False
    own_graph: bool = False

    def make(self) -> Iterator[str]:
        """Make the folder; yield lines on the images, the choices and the cost. Raises UserError."""
        params = self.name / PARAMS
        if params.exists() and not is_untouched(params.read_text(encoding="utf-8", errors="replace")):
            raise UserError(f"{params}: holds edits, which would be overwritten; allowed: another folder")
        if self.images is None:
            text, choices = self.plain_preset(), []
        else:
            if self.flow and self.prediction is not None:
                raise UserError(
                    f"--prediction {self.prediction}: --flow predicts the velocity; allowed: one of the two"
                )
            survey = Survey.of(self.images, self.size or 0)
            if len(survey.files) < FEWEST:
                raise UserError(f"{self.images}: {len(survey.files)} images; allowed: at least {FEWEST}")
            yield f"{self.images}: {survey.summary()}"
            yield from (f"  note: {line}" for line in survey.oddities(self.size or 0))
            text, choices = self.fitted(survey)
        schema = os.path.relpath(shipped("params.schema.json"), self.name)
        text = with_header(text, schema, f"Made by `{self.command}`.")
        beside = self.name.parent / f".{self.name.name}.new.yaml"
        try:
            beside.write_text(text, encoding="utf-8")
            checked = Params.read(beside)
        finally:
            beside.unlink(missing_ok=True)
        make_folder(self.name, text, self.own_graph)
        yield f"{self.name}: made, with all that both engines need; models: {', '.join(checked.scored_models)}"
        yield from (f"  {line}" for line in choices)
        yield from self.cost(checked)
        yield f"next: cd {shlex.quote(str(self.name))}; unequal check; unequal try  # every stage, with small budgets"
        yield "  then: snakemake --cores all; unequal sample --grid"

    @property
    def command(self) -> str:
        """Command line that makes this folder again."""
        words = ["unequal", "init", str(self.name)]
        for field in fields(self)[1:]:
            if (value := getattr(self, field.name)) != field.default:
                words += [f"--{field.name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join(words)

    def preset_file(self) -> Path:
        """Find the preset. Raises UserError where there is none of this name."""
        presets = Path(shipped("presets"))
        file = presets / f"{self.preset or ('own-images-32' if self.gpu else 'own-images-cpu')}.yaml"
        if not file.exists():
            names = ", ".join(sorted(path.stem for path in presets.glob("*.yaml")))
            raise UserError(f"--preset {self.preset}: there is none; allowed: {names}")
        return file

    def plain_preset(self) -> str:
        """Text of the preset; a path in it is seen from the folder as it was from here."""
        text, file = self.preset_file().read_text(encoding="utf-8"), self.preset_file()
        path = Params.read(file).data.path
        return text if path is None or os.path.isabs(path) else edited(text, {"data.path": self.seen(Path(path))}, file)

    def seen(self, path: Path) -> str:
        """Path of something outside the folder, as seen from the folder."""
        return os.path.relpath(path, self.name) if not path.is_absolute() else str(path)

    def fitted(self, survey: Survey) -> tuple[str, list[str]]:
        """Text of the preset fitted to the images, and lines on the choices and their reasons."""
        assert self.images is not None
        assert self.size is not None
        yaml, result = yaml_of_file(), StringIO()
        preset, network = yaml.load(self.preset_file().read_text(encoding="utf-8")), NETWORKS[self.gpu][self.size]
        count, batch = len(survey.files), self.batch_size or network.batch
        share = max(0.05, min(LARGEST_SHARE, round(HELD_OUT / count, 2)))
        train = count - round(count * share)
        if self.flow:
            make_flow(preset)
        elif self.prediction is not None:
            predict(preset, self.prediction)
        method = self.method or ("min_snr" if self.flow else "uniform")
        apply_method(preset, method)
        wanted, budget = preset["recipes"]["base"]["images"], scale_budgets(preset, MOST_PASSES * train, batch)
        threads = 1 if self.gpu else max(1, len(os.sched_getaffinity(0)) // 2)
        features, why = self.features(survey)
        singular = train // 2 < features["features"]
        values = {
            "runtime.threads": threads,
            "data.path": self.seen(self.images),
            "data.image_size": self.size,
            "data.channels": survey.channels,
            "data.fit": "exact" if survey.fits(self.size) else "crop",
            "data.holdout": share,
            "network.block_out_channels": network.channels,
            "network.attention_resolutions": network.attention,
            "training.batch_size": batch,
            "profile.batch_size": network.sampled,
            "sampling.batch_size": network.sampled,
            "evaluation.samples": max(5000 if self.gpu else 1000, features["features"]),
            "evaluation.kid_subset": min(500, train // 2),
            "evaluation.allow_singular": singular,
        } | {f"extractor.{key}": value for key, value in features.items()}
        addable = [name for name in preset["scored_models"] if name != "base"]
        if not self.all_methods:
            values |= {key: ["base"] for key in MODELS}
        change(preset, values)
        if not self.all_methods:
            preset.yaml_add_eol_comment(f"add any to train it too: {', '.join(addable)}", "scored_models")
        yaml.dump(preset, result)
        more = f"; {wanted:,} would be more than {MOST_PASSES:,} passes, and memorize them" if budget < wanted else ""
        schedule = "flow, which predicts the velocity" if self.flow else f"linear, {self.prediction or 'epsilon'}"
        choices = [
            f"data: {self.size} pixels, {'RGB' if survey.channels == 3 else 'grey'}, {survey.fitted(self.size)}",
            "flips: on; set training.horizontal_flips: false where left and right mean something, as in text or logos",
            f"held out: {count - train} images ({100 * share:.0f} %), for losses that training does not see",
            f"base: {budget:,} images, {budget / train:,.0f} passes over {train:,} images{more}",
            f"schedule: {schedule}; method: {method}{METHODS[method][2] if self.flow else ''}",
            f"FID's features: {features['kind']}, {why}",
        ]
        if not self.all_methods:
            choices.append(f"further models, each a name more in `scored_models` of {PARAMS}: {', '.join(addable)}")
        if survey.labels:
            choices.append("labels: for FID's features alone; the network sees none unless network.condition says so")
        if singular:
            choices.append(
                f"FID: half of {train} images are fewer than the {features['features']} features "
                "(evaluation.allow_singular); compare its rows with each other only"
            )
        first, _, rest = result.getvalue().split("\n", 2)  # the second line describes the preset, not this file
        return f"{first}\n{re.sub('^network:.*$', 'network:', rest, flags=re.MULTILINE)}", choices

    def features(self, survey: Survey) -> tuple[dict[str, Any], str]:
        """Settings of FID's features, of given weights or else of a network trained on the images; and the reason."""
        if self.inception is not None:
            weights = self.seen(self.inception)
            return {"kind": "inception", "weights": weights, "features": 2048}, "from the given weights"
        if self.dinov2 is not None:
            from unequal.evaluation.dinov2 import check_files, dinov2_of

            check_files(self.dinov2, f"--dinov2 {self.dinov2}")
            count = dinov2_of(self.dinov2, f"--dinov2 {self.dinov2}").features
            return {"kind": "dinov2", "weights": self.seen(self.dinov2), "features": count}, "from the given weights"
        small: dict[str, Any] = {"weights": None, "features": 64, "images": 128_000}
        if survey.labels:
            return {"kind": "classifier"} | small, f"learned from the {survey.labels} classes of these images"
        return {"kind": "rotations"} | small, "learned from rotations of these images, which need no labels"

    def cost(self, params: Params) -> Iterator[str]:
        """Yield lines on the cost, measured on this machine unless the run is for a GPU and there is none."""
        import torch

        from unequal.cli.estimate import brief, busy, extent

        if self.images is None:
            return
        yield f"cost: {extent(params)}"
        if self.gpu and not torch.cuda.is_available():
            yield "  time: no GPU is here to measure it; where one is, `unequal estimate` does"
            return
        yield "  time: runs a few training steps to measure it …"
        yield f"  time: {brief(params)}"
        yield from (f"  {line}" for line in busy(params))
