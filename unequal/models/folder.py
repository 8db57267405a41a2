"""A trained model as a folder: the network's config and weights, and a record of how it came about."""

# ruff: noqa: E402

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "safetensors")

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from unequal.diffusion.predictions import head_weights
from unequal.errors import UserError, first_line, one_line
from unequal.models.backbones.backbone import backbone_named, backbone_of
from unequal.models.spec import ModelSpec
from unequal.models.weights import check_finite
from unequal.runtime.files import content_hash, files_below, read_json, require, write_json
from unequal.settings.strict import Strict
from unequal.timesteps.partition import TimestepSet, timesteps_of

CONFIG = "config.json"
WEIGHTS = "diffusion_pytorch_model.safetensors"
RECORD = "model.json"
PRUNING = "pruning.json"
HEADS = "heads.safetensors"
#: Folder within a model's, of its averaged weights at earlier points, each a model named by the images seen.
SNAPSHOTS = "snapshots"
#: Further outputs of its training: averages for other widths, a file a point, and the state to resume from.
AVERAGES, STATE = "averages", "training_state.safetensors"
#: And what the objective of its training has learned, which is no part of the model.
OBJECTIVE = "objective.safetensors"
#: Characters of a reason that may be as long as a network's list of weights.
QUOTED = 200

#: Removal by pruning: a layer's name, and its output channels, by their number in the unpruned network.
Removal = tuple[str, Sequence[int]]
#: A record of them, as JSON holds it.
REMOVALS = TypeAdapter(list[tuple[str, list[NonNegativeInt]]])


class ModelRecord(Strict):
    """The conditions behind a model: what it is, for which timesteps, and what it cost.

    `spec` says what its network is asked and answers, `backbone` of which kind that is. It is meant for timesteps
    `first`, `first` + `stride`, … `last`; an expert's are its group's, and `group` of `groups` says which one it is.
    `images_seen` and `training_flops` (3 × multiply–accumulates × images) are those of its own run; what the models
    that it was trained further from had seen and cost stands in `inherited_images` and `inherited_flops`. `classes`
    are the names of the labels 0, 1, … that a conditional model takes.
    """

    name: str
    spec: ModelSpec
    backbone: str
    seed: NonNegativeInt
    steps: NonNegativeInt
    images_seen: NonNegativeInt
    training_flops: NonNegativeInt
    macs: NonNegativeInt
    macs_with_attention: NonNegativeInt
    parameters: NonNegativeInt
    first: NonNegativeInt
    last: NonNegativeInt
    stride: PositiveInt = 1
    parent: str | None = None
    inherited_images: NonNegativeInt = 0
    inherited_flops: NonNegativeInt = 0
    group: NonNegativeInt | None = None
    groups: PositiveInt | None = None
    classes: tuple[str, ...] | None = None
    sha256: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def range_within_timesteps(self) -> Self:
        """The timesteps that it is meant for are some of its schedule's, which has as many as groups or more."""
        if not self.first <= self.last < self.spec.timesteps:
            raise ValueError(f"first {self.first}, last {self.last}: no range of {self.spec.timesteps} timesteps")
        if (self.last - self.first) % self.stride:
            raise ValueError(f"stride: {self.stride} does not lead from timestep {self.first} to {self.last}")
        if self.groups is not None and self.groups > self.spec.timesteps:
            raise ValueError(f"groups: {self.groups} of {self.spec.timesteps} timesteps")
        return self

    @property
    def timesteps(self) -> TimestepSet:
        return timesteps_of(self.first, self.last, self.stride)

    @property
    def total_images(self) -> int:
        """Images behind the weights, from the first random ones on."""
        return self.inherited_images + self.images_seen

    @property
    def total_flops(self) -> int:
        """Training FLOPs behind the weights, from the first random ones on."""
        return self.inherited_flops + self.training_flops

    def changed(self, **changes: Any) -> Self:
        return type(self)(**(dict(self) | changes))


#: Loads a model folder onto the CPU: `load_model`, or `unequal.models.pruned.load_any_model` where it may be pruned.
Loader = Callable[[Path], tuple[nn.Module, ModelRecord]]


class Heads(NamedTuple):
    """Combination of three heads: weights [T, 3], and what they were made from.

    `products` [T, 3, 3] are held-out mean products of the heads' x0-errors, from which every other choice follows.
    """

    weights: Tensor
    products: Tensor

    @classmethod
    def selected(cls, select: str, products: Tensor) -> "Heads":
        """Heads combined by a selection of `unequal.diffusion.predictions.head_weights`."""
        return cls(torch.from_numpy(head_weights(select, products.numpy())), products)


def save_model(
    folder: Path,
    net: nn.Module,
    record: ModelRecord,
    removals: Sequence[Removal] | None = None,
    heads: Heads | None = None,
) -> None:
    """Write a model folder.

    Args:
        folder: made if missing.
        net: of a known backbone; its weights are saved in float32.
        record: the hashes of the other files are filled in here.
        removals: what pruning has taken from the architecture of `config.json`; None where nothing was pruned.
        heads: how a model with three heads combines them.

    Raises:
        UserError: weights that are NaN or infinite, which the last step of a training may make unseen.
    """
    state = {name: tensor.detach().cpu().float().contiguous() for name, tensor in net.state_dict().items()}
    check_finite(state, f"model '{record.name}'")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, backbone_of(net).config(net))
    save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
    if removals is not None:
        write_json(folder / PRUNING, removals)
    if heads is not None:
        save_file({name: table.contiguous() for name, table in heads._asdict().items()}, folder / HEADS)
    # Folders below are models of their own: snapshots, which an attempt that was stopped may have left there.
    own = [path for path in files_below(folder) if path.parent == folder and path.name != RECORD]
    hashes = {path.name: content_hash(path) for path in own}
    write_json(folder / RECORD, record.changed(sha256=hashes).model_dump())


def load_record(folder: Path) -> ModelRecord:
    """The record of a model folder. Raises UserError where it is missing or from another version."""
    path = require(folder) / RECORD
    refusal = UserError(f"{path}: not a record of this version; make the model again")
    facts = read_json(path)
    # Records of models for ranges alone have been written without a stride.
    if not isinstance(facts, dict) or {*facts, "stride"} != ModelRecord.model_fields.keys():
        raise refusal
    try:
        return ModelRecord.model_validate_json(json.dumps(facts))
    except ValidationError:
        raise refusal from None


def load_removals(folder: Path) -> list[Removal] | None:
    """Channels pruned from the network of a model folder, None for a model that was never pruned.

    Raises UserError where its record is damaged.
    """
    path = folder / PRUNING
    if not path.exists():
        return None
    try:
        return [*REMOVALS.validate_python(read_json(path))]
    except ValidationError:
        raise UserError(f"{path}: no record of pruning; make the model again") from None


def load_heads(folder: Path) -> Heads | None:
    """Combination of a model's heads; None for a model with one head. Raises UserError where it is damaged."""
    path = folder / HEADS
    try:
        return Heads(**load_file(path)) if path.exists() else None
    except (SafetensorError, TypeError) as error:
        raise UserError(f"{path}: cut short or altered ({error}); make the model again") from None


def load_model(folder: Path) -> tuple[nn.Module, ModelRecord]:
    """Load the folder of a model that was never pruned onto the CPU.

    Raises:
        UserError: a file is missing, cut short or not the one that was saved, or the model is pruned.
    """
    net, record = load_architecture(folder)
    if load_removals(folder) is not None:
        raise UserError(f"{folder}: a pruned model; allowed here: models that were never pruned")
    return with_weights(net, folder), record


def load_architecture(folder: Path) -> tuple[nn.Module, ModelRecord]:
    """The network of a model folder before any pruning, with any weights. Raises UserError where a file is altered."""
    record = load_record(folder)
    if not {CONFIG, WEIGHTS} <= record.sha256.keys():
        raise UserError(f"{folder / RECORD}: has no hash of {CONFIG} or of {WEIGHTS}; make the model again")
    for name, digest in record.sha256.items():
        if content_hash(require(folder / name)) != digest:
            raise UserError(f"{folder / name}: altered or cut short since it was saved; make the model again")
    backbone, config = backbone_named(record.backbone), read_json(folder / CONFIG)
    try:
        return backbone.from_config(config), record
    except Exception as error:  # of a config that describes no network, libraries say so in many ways
        reason = f"describes no network of kind {backbone.kind} ({first_line(error)})"
        raise UserError(f"{folder / CONFIG}: {reason}; make the model again") from None


def with_weights(net: nn.Module, folder: Path) -> nn.Module:
    """Load the weights of a model folder into a network, for inference. Raises UserError where they do not fit."""
    try:
        net.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        raise UserError(f"{folder / WEIGHTS}: does not fit {folder / CONFIG}: {one_line(error)[:QUOTED]}") from None
    return net.eval().requires_grad_(False)
