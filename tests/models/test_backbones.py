"""A second kind of network goes the way of the first: trained, stored, profiled and sampled, without a line for it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from here import Here
from specs import labelled_low_resolution, recipe_of, spec_of
from torch import Tensor, nn

from unequal.data.prepared import tensor_of
from unequal.errors import UserError
from unequal.evaluation.profiling import Draws, profile
from unequal.models import pruned
from unequal.models.backbones import backbone as registry
from unequal.models.backbones.backbone import Backbone, Unexportable, count_cost
from unequal.models.conditions import condition_of
from unequal.models.folder import Removal, load_model, load_record
from unequal.models.pruned import PrunableKind, PrunableLayer, prunable_kind_of, take_away
from unequal.models.spec import ModelSpec
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.network import Network
from unequal.settings.samplers import Slot, Uniform
from unequal.settings.schedule import BetaSchedule
from unequal.timesteps.partition import TimestepRange
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.initialisation import Scope, Start
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train_fresh, train_further


class Stack(nn.Module):
    """Two convolutions, to whose middle the timestep and the label are added."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = config
        self.first = nn.Conv2d(config["inputs"], config["width"], 3, padding=1)
        self.last = nn.Conv2d(config["width"], config["outputs"], 3, padding=1)
        self.labels = nn.Embedding(config["classes"] or 1, config["width"])

    def forward(self, sample: Tensor, timestep: Tensor, class_labels: Tensor | None = None) -> Any:
        added = self.labels(torch.zeros_like(timestep) if class_labels is None else class_labels)
        hidden = torch.relu(self.first(sample) + (added + timestep[:, None] / 1000)[:, :, None, None])
        return SimpleNamespace(sample=self.last(hidden))


class StackSettings(Network):
    kind: Literal["stack"] = "stack"
    width: int = 8


class StackBackbone(Backbone):
    kind, module = "stack", Stack

    def build(self, network: StackSettings, spec: ModelSpec) -> Stack:
        sizes = {"inputs": spec.input_channels, "outputs": spec.output_channels, "size": spec.space.size}
        return Stack(width=network.width, classes=spec.conditioning.embedded_classes, **sizes)

    def config(self, net: Stack) -> dict[str, Any]:
        return net.config

    def from_config(self, config: dict[str, Any]) -> Stack:
        return Stack(**config)

    def example_inputs(self, net: Stack) -> tuple[Tensor, ...]:
        device, size = net.first.weight.device, net.config["size"]
        index = torch.zeros(1, dtype=torch.long, device=device)
        return torch.zeros(1, net.config["inputs"], size, size, device=device), index, index


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "stack", StackBackbone)


UNIFORM, FAST = Uniform(density="uniform"), {"lr": 1e-2}


CONDITIONS = [spec_of().condition, labelled_low_resolution(2, 2)]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.kind)
def test_a_second_backbone_goes_all_the_way(condition, tmp_path, runtime, prepared, training_settings):
    here, settings = Here(tmp_path, runtime), training_settings()
    network, schedule = StackSettings(pretrained=None, condition=condition), BetaSchedule(name="linear", timesteps=50)
    job = TrainingJob("base", recipe_of("sample", 400, optimizer=FAST), settings, prepared, 5)
    write_results(here, train_fresh(here, job, network, schedule))
    base = tmp_path / "artifacts/models/base"
    record = load_record(base)
    assert (record.backbone, record.spec) == ("stack", spec_of("sample", condition=condition))

    # On from the base, for all timesteps and for a range.
    longer, expert = Start.of_model(base), Start.of_model(base, Scope(TimestepRange(10, 19), 0, 2))
    for name, on in {"longer": (longer, TimestepSampler(uniform(50))), "expert": (expert,)}.items():
        chosen = recipe_of("sample", 40, sampler=UNIFORM if name == "longer" else Slot(density="slot"), optimizer=FAST)
        there = Here(tmp_path / name, runtime)
        write_results(there, train_further(there, TrainingJob(name, chosen, settings, prepared, 5), *on))
        assert load_record(tmp_path / name / "artifacts/models" / name).inherited_images == 400

    net, _ = load_model(base)
    first, last = net.first.weight.numel(), net.last.weight.numel()
    assert count_cost(net).macs == record.macs == 64 * (first + last)

    denoiser = Expert.load(base, torch.device("cpu")).denoiser
    draws = Draws.of(tensor_of(prepared.holdout), 50, 4, 0, torch.device("cpu"), prepared.labels_of("holdout"))
    losses = profile(denoiser, draws, 100).epsilon
    assert losses.shape == (50, 4)
    # What was learned: far from the data, x0 is known better than by guessing noise.
    assert 0 < losses[-10:].mean() < 1

    given: dict[str, Any] = {"seed": 1, "originals": tensor_of(prepared.holdout)}
    if condition_of(condition).takes_labels_of_images:
        given["labels"] = prepared.labels_of("holdout")
    images = Ensemble.load(base).sample(3, [40, 20, 5], **given)
    assert images.shape == (3, 1, 8, 8)
    assert torch.equal(images, Ensemble.load(base).sample(3, [40, 20, 5], batch_size=2, **given))


class Other(Network):
    kind: Literal["other"] = "other"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net: prunable_kind_of(net), "networks of kind stack cannot be pruned; allowed: unet2d, dit"),
        (lambda net: registry.take_over(StackSettings(pretrained="x"), spec_of()), "network.pretrained: 'x'; networks"),
        (lambda net: StackBackbone().export(net, spec_of(), Path("exported")), "a network of kind stack"),
        (lambda net: registry.build_network(Other(pretrained=None), spec_of()), "network.kind: 'other' is unknown"),
        (lambda net: registry.backbone_of(nn.Identity()), "a network of class Identity is of no kind that is known"),
    ],
)
def test_what_a_backbone_does_not_say_is_refused_in_one_line(call, said):
    net = registry.build_network(StackSettings(pretrained=None), spec_of())
    with pytest.raises((UserError, Unexportable), match=re.escape(said)):
        call(net)


def test_a_second_backbone_brings_its_own_pruning(monkeypatch):
    class PrunableStack(PrunableKind):
        def layers(self, net: Stack) -> Iterator[PrunableLayer]:
            return iter(())

        def remove(self, net: Stack, removals: Sequence[Removal]) -> None:
            super().remove(net, removals)
            net.config = net.config | {"width": net.first.out_channels}

    monkeypatch.setitem(pruned.BUILT_IN, "stack", PrunableStack)
    net = registry.build_network(StackSettings(pretrained=None), spec_of())
    take_away(net, [("first", [0, 2, 4])])
    assert net.config["width"] == net.last.in_channels == net.labels.embedding_dim == 5
