"""A recipe carried out: the model folder, its record and its curve say what happened."""

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.files import read_npz
from unequal.models.artifact import load_heads, load_model, load_pruning
from unequal.models.flops import count_cost
from unequal.models.pruned import replay
from unequal.sampling import Experts
from unequal.settings.recipe import LossWeight, Mixing, Optimizer, Plain, Recipe
from unequal.settings.runtime import Runtime
from unequal.settings.task import SuperResolution
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.mixing import PERIODS, BalancedHeads, BestHead
from unequal.training.run import Job, Start, mixed_objective, produce, untrained, write_results

CPU = torch.device("cpu")
SCHEDULE = NoiseSchedule.linear(50)


@dataclass
class Here:
    """A place in a temporary folder."""

    root: Path
    runtime: Runtime
    device: torch.device = CPU
    leads: bool = True
    figures: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        folder = self.root / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def output(self, path: str) -> Path:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        return self.root / path

    def metrics(self, path: str, content: Mapping[str, Any]) -> None:
        self.figures[path] = json.loads(json.dumps(content, allow_nan=False))


def recipe(prediction: str = "epsilon", images: int = 16) -> Recipe:
    return Recipe(
        images=images,
        prediction=prediction,
        mixing=Mixing(train="best_common", select="profile") if prediction == "mixed" else None,
        sampler=Plain(kind="uniform"),
        loss_weight=LossWeight(kind="none"),
        optimizer=Optimizer(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0, warmup_images=0, decay="constant"),
    )


@pytest.fixture
def carry_out(
    tmp_path: Path, runtime: Runtime, prepared: PreparedData, training_settings: Callable[..., Training]
) -> Callable[..., Here]:
    """Carry a recipe out in a folder of its own."""

    def run(name: str, start: Start, chosen: Recipe, measure: Any = None, data: PreparedData = prepared) -> Here:
        place = Here(tmp_path / name, runtime)
        sampler = build_sampler("uniform", 50)
        produce(place, Job(name, start, chosen, training_settings(), sampler, data, 5, measure))
        return place

    return run


def test_a_base_from_fresh_weights(carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel]) -> None:
    net = tiny_net()
    place = carry_out("base", Start(net, SCHEDULE), recipe())
    loaded, record = load_model(place.root / "artifacts/models/base")
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert (record.steps, record.images_seen, record.seed, record.parent) == (4, 16, 5, None)
    assert record.training_flops == 3 * count_cost(net).macs * 16 == record.total_flops
    assert (record.first, record.last, record.image_size, record.channels) == (0, 49, 8, 1)
    with (place.root / "results/training/base.csv").open() as file:
        rows = list(csv.DictReader(file))
    log = [json.loads(line) for line in (place.root / "artifacts/training/base.jsonl").read_text().splitlines()]
    assert [float(row["loss"]) for row in rows] == [line["loss"] for line in log]
    figures = place.figures["results/metrics/train_base.json"]
    assert figures["final_loss"] == log[-1]["loss"]
    assert figures["images_seen"] == 16


def test_a_child_inherits_what_its_parent_has_cost(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel]
) -> None:
    place = carry_out("base", Start(tiny_net(), SCHEDULE), recipe())
    net, parent = load_model(place.root / "artifacts/models/base")
    removals = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])]
    replay(net, removals)
    start = Start(net, SCHEDULE, parent, removals, first=3, last=9, group=1, groups=4)
    place = carry_out("experts/group_1", start, recipe(images=8))
    folder = place.root / "artifacts/models/experts/group_1"
    loaded, record = load_model(folder)
    assert load_pruning(folder) == [list(removal) for removal in removals]
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert (record.parent, record.first, record.last, record.group, record.groups) == ("base", 3, 9, 1, 4)
    assert (record.images_seen, record.inherited_images, record.total_images) == (8, 16, 24)
    assert record.macs < parent.macs
    assert record.total_flops == 3 * (16 * parent.macs + 8 * record.macs)
    assert "results/metrics/train_experts_group_1.json" in place.figures
    assert not (place.root / "artifacts/statistics/experts/group_1.npz").exists()


def test_a_child_sees_other_noise_than_its_parent(
    carry_out: Callable[..., Here],
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., Any],
) -> None:
    ends = []
    for name, parent in (("fresh", None), ("child", make_record(tiny_net())), ("again", make_record(tiny_net()))):
        net = tiny_net()
        carry_out(name, Start(net, SCHEDULE, parent), recipe(images=4))
        ends.append(net.conv_in.weight)
    assert not torch.equal(ends[0], ends[1])
    assert torch.equal(ends[1], ends[2])


def test_super_resolution_is_trained_and_handed_down(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel]
) -> None:
    net = tiny_net(task=SuperResolution(kind="super_resolution", factor=2))
    start = net.conv_in.weight.detach().clone()
    place = carry_out("base", Start(net, SCHEDULE, enlargement=2), recipe())
    net, parent = load_model(place.root / "artifacts/models/base")
    assert parent.enlargement == 2 == place.figures["results/metrics/train_base.json"]["enlargement"]
    # The weights that look at the enlarged image have learned too.
    assert not torch.equal(net.conv_in.weight[:, 1:], start[:, 1:])
    place = carry_out("child", Start(net, SCHEDULE, parent), recipe(images=8))
    assert load_model(place.root / "artifacts/models/child")[1].enlargement == 2


def test_learned_variance_is_trained_and_handed_down(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel], network_settings: Callable[..., Any]
) -> None:
    settings = network_settings(learned_variance=True)
    net = tiny_net(learned_variance=True)
    before = net.conv_out.weight.detach().clone()
    place = carry_out("base", Start.of(net, SCHEDULE, settings), recipe())
    net, parent = load_model(place.root / "artifacts/models/base")
    assert parent.learned_variance is True
    # Both halves have learned: the prediction's channel and the variance's.
    assert all(not torch.equal(new, old) for new, old in zip(net.conv_out.weight, before, strict=True))
    with (place.root / "artifacts/training/base.jsonl").open() as file:
        assert all(json.loads(line)["bound"] > 0 for line in file)
    place = carry_out("child", Start(net, SCHEDULE, parent), recipe(images=8))
    assert load_model(place.root / "artifacts/models/child")[1].learned_variance is True


def test_a_label_decides_what_is_sampled(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel], network_settings: Callable[..., Any]
) -> None:
    """Images of label 0 are bright above, those of label 1 below; a child learns with labels too."""
    settings = network_settings(classes=2)
    place = carry_out("base", Start.of(tiny_net(classes=2), SCHEDULE, settings), recipe("sample", 2000))
    net, parent = load_model(place.root / "artifacts/models/base")
    assert parent.classes == 2 == place.figures["results/metrics/train_base.json"]["classes"]
    place = carry_out("child", Start(net, SCHEDULE, parent), recipe("sample", 400))
    experts = Experts.load(place.root / "artifacts/models/child")
    assert experts.record.classes == 2
    images = experts.sample(16, [40, 20, 5], labels=torch.tensor([0, 1])).float()
    above, below = images[:, :, :4].mean((1, 2, 3)), images[:, :, 4:].mean((1, 2, 3))
    assert (above > below).tolist() == [True, False] * 8


@pytest.mark.parametrize(("classes", "labels", "said"), [(3, 2, "of 2 classes"), (2, None, "without labels")])
def test_other_classes_than_those_of_the_data(
    tmp_path: Path,
    runtime: Runtime,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    training_settings: Callable[..., Training],
    classes: int,
    labels: int | None,
    said: str,
) -> None:
    data = replace(prepared, facts=prepared.facts | {"labels": labels})
    start, sampler = Start(tiny_net(classes=classes), SCHEDULE, classes=classes), build_sampler("uniform", 50)
    place, job = Here(tmp_path, runtime), Job("base", start, recipe(), training_settings(), sampler, data, 5)
    for attempt in (produce, untrained):
        with pytest.raises(UserError, match=f"network.classes: {classes}; the data are {said}, allowed: "):
            attempt(place, job)


def test_three_heads(carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel]) -> None:
    products = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64).diag().expand(50, 3, 3)
    place = carry_out("mixed", Start(tiny_net(heads=3), SCHEDULE), recipe("mixed"), lambda net: products)
    folder = place.root / "artifacts/models/mixed"
    assert load_model(folder)[1].prediction == "mixed"
    heads = load_heads(folder)
    assert heads is not None
    assert torch.equal(heads.products, products)
    # The recipe selects by profile: the second head errs least.
    assert heads.weights.tolist() == [[0, 1, 0]] * 50
    tables = read_npz(place.root / "artifacts/statistics/mixed.npz", ["images", "wins"])
    assert tables["images"].sum() == tables["wins"].sum() == 16


def test_an_unconditional_network_looks_at_no_labels(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel], prepared: PreparedData
) -> None:
    place = carry_out("with", Start(tiny_net(), SCHEDULE), recipe())
    unlabelled = replace(prepared, labels=None, facts=prepared.facts | {"labels": None})
    bare = carry_out("without", Start(tiny_net(), SCHEDULE), recipe(), data=unlabelled)
    weights = "artifacts/models/{}/diffusion_pytorch_model.safetensors"
    assert (place.root / weights.format("with")).read_bytes() == (bare.root / weights.format("without")).read_bytes()
    assert "classes" not in json.loads((place.root / "artifacts/models/with/model.json").read_text())


def test_a_pretrained_base_takes_no_step(
    tmp_path: Path,
    runtime: Runtime,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    training_settings: Callable[..., Training],
) -> None:
    place, net = Here(tmp_path, runtime), tiny_net()
    sampler = build_sampler("uniform", 50)
    job = Job("base", Start(net, SCHEDULE), recipe(), training_settings(), sampler, prepared, 5)
    write_results(place, job, untrained(place, job))
    loaded, record = load_model(tmp_path / "artifacts/models/base")
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert (record.steps, record.images_seen, record.training_flops) == (0, 0, 0)
    assert (tmp_path / "results/training/base.csv").read_text().startswith("step,images_seen,loss\n")


@pytest.mark.parametrize("compare", ["common", "native"])
def test_objectives_of_the_best_head(compare: str) -> None:
    mixing = Mixing(train=f"best_{compare}", select="profile", bins=4)
    best = mixed_objective(recipe("mixed"), mixing, SCHEDULE)
    assert isinstance(best, BestHead)
    assert best.compare == compare
    assert best.statistics()["images"].shape == (PERIODS, 4)


def test_objective_of_balanced_heads() -> None:
    mixing = Mixing(train="balanced", half_life_images=7, select="blend", bins=4)
    balanced = mixed_objective(recipe("mixed"), mixing, SCHEDULE)
    assert isinstance(balanced, BalancedHeads)
    assert (balanced.half_life, balanced.tally.budget) == (7, 16)


@pytest.mark.parametrize(
    ("prediction", "learned", "wanted", "heads"),
    [("mixed", False, 3, 1), ("v_prediction", False, 1, 3), ("epsilon", True, 2, 1), ("epsilon", False, 1, 2)],
)
def test_a_network_of_other_heads_is_refused(
    carry_out: Callable[..., Here],
    tiny_net: Callable[..., UNet2DModel],
    prediction: str,
    learned: bool,
    wanted: int,
    heads: int,
) -> None:
    said = (
        f"^prediction '{prediction}' {'with' if learned else 'without'} learned variance takes {wanted} answers of an "
        f"image's size; the network of a gives {heads}$"
    )
    with pytest.raises(UserError, match=said):
        carry_out("a", Start(tiny_net(heads=heads), SCHEDULE, learned_variance=learned), recipe(prediction))


def test_a_single_head_does_not_train_a_mixed_model_on(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., Any]
) -> None:
    net = tiny_net(heads=3)
    start = Start(net, SCHEDULE, make_record(net, name="base", prediction="mixed"))
    with pytest.raises(UserError, match=r"^a recipe of prediction 'epsilon' cannot train 'mixed' of base on$"):
        carry_out("child", start, recipe("epsilon"))


def test_a_model_of_other_latents_is_not_trained_on(
    carry_out: Callable[..., Here], tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., Any]
) -> None:
    parent = make_record(tiny_net(), name="base", autoencoder="abc")
    with pytest.raises(UserError, match=r"^'base' works in other latents than those of the data, or in pixels"):
        carry_out("more", Start(tiny_net(), SCHEDULE, parent), recipe())
