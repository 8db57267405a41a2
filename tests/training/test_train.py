"""A recipe carried out: the model folder, its record and its curve say what happened."""

import csv
import json
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from here import Here
from pydantic import TypeAdapter
from specs import class_labels, recipe_of, spec_of
from tensors import equal
from torch import nn

from unequal.cli.export import average
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.experts.plan import train_expert
from unequal.models.backbones.backbone import count_cost
from unequal.models.folder import AVERAGES, Heads, load_heads, load_model, load_record, load_removals, save_model
from unequal.models.pruned import load_any_model, take_away
from unequal.models.spec import ModelSpec
from unequal.runtime.files import read_npz, write_json
from unequal.runtime.tensor_files import read_saved
from unequal.sampling.ensemble import Ensemble
from unequal.settings.loss_weights import AnyLossWeight
from unequal.settings.recipe import Mixing, Recipe
from unequal.settings.samplers import Slot
from unequal.settings.schedule import BetaSchedule
from unequal.settings.training import PowerAverage
from unequal.timesteps.partition import TimestepRange
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import BatchSource
from unequal.training.initialisation import Scope, Start
from unequal.training.mixed_prediction import mixed_objective
from unequal.training.results import trained_record, write_model, write_results
from unequal.training.timestep_files import NumberedGroup
from unequal.training.train import batches_of, single_head, take_over, train_fresh

SCHEDULE = NoiseSchedule.linear(50)
LINEAR = BetaSchedule(name="linear", timesteps=50)
SLOT = Slot(density="slot")


def recipe(prediction: str = "epsilon", images: int = 16) -> Recipe:
    mixing = Mixing(train="best_common", select="profile") if prediction == "mixed" else None
    return recipe_of(prediction, images, mixing=mixing)


@pytest.fixture
def run_training(carried_out):
    def run(name: str, start: Start, chosen: Recipe, **changes: Any) -> Here:
        objective = None if chosen.mixing is None else mixed_objective(chosen, chosen.mixing, SCHEDULE)
        return carried_out(name, chosen, start, objective=objective, **changes)

    return run


def start_of(net: nn.Module, spec: ModelSpec | None = None) -> Start:
    spec = spec or spec_of()
    return Start(net, spec, Scope.whole(spec))


def test_a_base_from_fresh_weights(run_training, tiny_net):
    net = tiny_net()
    here = run_training("base", start_of(net), recipe())
    loaded, record = load_model(here.root / "artifacts/models/base")
    assert equal(loaded.state_dict(), net.state_dict())
    assert (record.steps, record.images_seen, record.seed, record.parent) == (4, 16, 5, None)
    assert record.training_flops == 3 * count_cost(net).macs * 16 == record.total_flops
    assert (record.first, record.last, record.spec, record.backbone) == (0, 49, spec_of(), "unet2d")
    with (here.root / "results/training/base.csv").open() as file:
        rows = list(csv.DictReader(file))
    log = [json.loads(line) for line in (here.root / "artifacts/training/base.jsonl").read_text().splitlines()]
    assert [float(row["loss"]) for row in rows] == [line["loss"] for line in log]
    figures = here.figures["results/metrics/train_base.json"]
    assert figures["final_loss"] == {"epsilon/uniform": log[-1]["loss"]}
    assert figures["images_seen"] == 16
    assert figures["spec"]["prediction"] == "epsilon"


def test_a_recipe_may_have_an_average_of_its_own(run_training, tiny_net):
    last, mean = ({"kind": "exponential", "decay": 0.0}, {"kind": "power", "width": 0.2})
    own = recipe().model_copy(update={"average": PowerAverage.model_validate(mean)})
    models = []
    for name, chosen, shared in (("own", own, last), ("shared", recipe(), mean), ("other", recipe(), last)):
        here = run_training(name, start_of(tiny_net()), chosen, average=shared)
        models.append(dict(load_model(here.root / f"artifacts/models/{name}")[0].named_parameters()))
    found, same, other = models
    assert equal(found, same)
    assert not equal(found, other)


def test_averages_for_other_widths_lie_beside_the_model(run_training, tiny_net):
    kept = {"kind": "power", "width": 0.2, "keep": 2}
    here = run_training("base", start_of(tiny_net()), recipe(), average=kept)
    folder = here.root / "artifacts/models/base"
    assert sorted(path.name for path in (folder / AVERAGES).iterdir()) == ["2.safetensors", "4.safetensors"]
    net, _ = load_model(folder)
    average(folder, 0.1, here.root / "narrower")
    narrower, record = load_model(here.root / "narrower")
    saved = read_saved(folder / AVERAGES / "4.safetensors").tensors
    for name, value in narrower.named_parameters():
        torch.testing.assert_close(value, saved[f"width.0.1.{name}"])
    assert not torch.equal(narrower.conv_in.weight, net.conv_in.weight)
    assert (record.steps, record.images_seen) == (4, 16)


def test_a_child_inherits_what_its_parent_has_cost(run_training, tiny_net):
    here = run_training("base", start_of(tiny_net()), recipe())
    net, parent = load_model(here.root / "artifacts/models/base")
    removals = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])]
    take_away(net, removals)
    start = Start(net, parent.spec, Scope(TimestepRange(3, 9), group=1, groups=4), parent, removals)
    here = run_training("experts/group_1", start, recipe(images=8))
    folder = here.root / "artifacts/models/experts/group_1"
    loaded, record = load_any_model(folder)
    assert load_removals(folder) == removals
    assert equal(loaded.state_dict(), net.state_dict())
    assert (record.parent, record.first, record.last, record.group, record.groups) == ("base", 3, 9, 1, 4)
    assert (record.images_seen, record.inherited_images, record.total_images) == (8, 16, 24)
    assert record.macs < parent.macs
    assert record.total_flops == 3 * (16 * parent.macs + 8 * record.macs)
    assert "results/metrics/train_experts_group_1.json" in here.figures
    assert not (here.root / "artifacts/statistics/experts/group_1.npz").exists()


@pytest.mark.parametrize("fresh_weights", [False, True])
def test_the_expert_of_a_group_is_trained_within_a_range(tmp_path, here, job_of, tiny_net, make_record, fresh_weights):
    net, removals, drawn = tiny_net(), [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])], list[int]()
    take_away(net, removals)
    save_model(tmp_path / "pruned", net, make_record(net, name="pruned"), removals)
    job, group = job_of(recipe_of(sampler=SLOT), "expert"), NumberedGroup(group=1, first=20, last=29, limit_ratio=1)

    def watched(*asked: Any) -> BatchSource:
        source = batches_of(*asked)
        drawn.extend(timestep for step in range(4) for timestep in source.timesteps(step).timesteps.tolist())
        return source

    with patch("unequal.training.train.batches_of", watched):
        outcome = train_expert(here, job, tmp_path / "pruned", group, 3, fresh_weights)
    record = trained_record(outcome)
    assert set(drawn) <= set(range(20, 30))
    assert (record.first, record.last, record.group, record.groups) == (20, 29, 1, 3)
    assert (record.parent, record.inherited_images) == ((None, 0) if fresh_weights else ("pruned", 12))
    write_model(tmp_path / "expert", outcome, outcome.start.net, record)
    assert load_removals(tmp_path / "expert") == removals
    # Four small steps leave weights near where they began.
    moved = (outcome.start.net.conv_in.weight - net.conv_in.weight).abs().max()
    assert (moved > 0.02) == fresh_weights


def test_a_child_sees_other_noise_than_its_parent(run_training, tiny_net, make_record):
    ends = []
    for name, parent in (("fresh", None), ("child", make_record(tiny_net())), ("again", make_record(tiny_net()))):
        net = tiny_net()
        run_training(name, replace(start_of(net), parent=parent), recipe(images=4))
        ends.append(net.conv_in.weight)
    assert not torch.equal(ends[0], ends[1])
    assert torch.equal(ends[1], ends[2])


@pytest.mark.slow
def test_a_label_decides_what_is_sampled(run_training, tiny_net):
    """Images of label 0 are bright above, those of label 1 below; a child learns with labels too."""
    condition = class_labels(2)
    start = start_of(tiny_net(condition=condition), spec_of("sample", condition=condition))
    rate = {"optimizer": {"lr": 3e-3}}
    here = run_training("base", start, recipe_of("sample", 1600, **rate), batch_size=16)
    assert here.figures["results/metrics/train_base.json"]["spec"]["condition"] == condition.model_dump()
    start = Start.of_model(here.root / "artifacts/models/base")
    here = run_training("child", start, recipe_of("sample", 64, **rate), batch_size=16)
    experts = Ensemble.load(here.root / "artifacts/models/child")
    assert experts.record.spec.condition == condition
    images = experts.sample(16, [40, 20, 5], labels=torch.tensor([0, 1])).float()
    above, below = images[:, :, :4].mean((1, 2, 3)), images[:, :, 4:].mean((1, 2, 3))
    assert (above > below).tolist() == [True, False] * 8


@pytest.mark.parametrize(
    ("start", "classes", "known", "said"),
    [(train_fresh, 3, 2, "of 2 classes"), (take_over, 2, None, "without labels")],
)
def test_other_classes_than_those_of_the_data(
    tmp_path, here, job_of, prepared, tiny_net, network_settings, start, classes, known, said
):
    data = replace(prepared, facts=prepared.facts | {"labels": known})
    tiny_net(condition=class_labels(classes)).save_pretrained(tmp_path / "net")
    network = network_settings(condition=class_labels(classes), pretrained=str(tmp_path / "net"))
    with pytest.raises(UserError, match=f"network.condition.classes: {classes}; the data are {said}, allowed: "):
        start(here, job_of(data=data), network, LINEAR)


@pytest.mark.parametrize(
    ("names", "known", "said"),
    [
        (["0", "1"], None, None),
        (["cat", "dog"], {"0": "cat", "1": "Dog"}, None),
        (["1", "2"], None, "network.pretrained: class 2; the model knows classes 0 … 1"),
        (["cat", "dog"], None, "network.pretrained: class 'cat' has no number that the model says"),
        (["cat", "dog"], {"0": "dog", "1": "cat"}, "network.pretrained: class 'cat' is its number 1, and number 0 of"),
    ],
)
def test_a_pretrained_network_knows_the_classes_by_the_numbers_of_the_data(
    tmp_path, here, job_of, prepared, tiny_net, network_settings, names, known, said
):
    data = replace(prepared, facts=prepared.facts | {"classes": names})
    tiny_net(condition=class_labels(2)).save_pretrained(tmp_path / "net")
    if known is not None:
        write_json(tmp_path / "net/classes.json", known)
    network = network_settings(condition=class_labels(2), pretrained=str(tmp_path / "net"))
    if said is not None:
        with pytest.raises(UserError, match=said):
            take_over(here, job_of(data=data), network, LINEAR)
        return
    write_results(here, take_over(here, job_of(data=data), network, LINEAR))
    assert load_record(tmp_path / "artifacts/models/base").classes == tuple(names)


def test_three_heads(run_training, tiny_net):
    products = torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64).diag().expand(50, 3, 3)
    start = start_of(tiny_net(heads=3), spec_of("mixed"))
    here = run_training("mixed", start, recipe("mixed"), heads=lambda net: Heads.selected("profile", products))
    folder = here.root / "artifacts/models/mixed"
    assert load_record(folder).spec.prediction == "mixed"
    heads = load_heads(folder)
    assert heads is not None
    assert torch.equal(heads.products, products)
    # The recipe selects by profile: the second head errs least.
    assert heads.weights.tolist() == [[0, 1, 0]] * 50
    tables = read_npz(here.root / "artifacts/statistics/mixed.npz", ["images", "wins"])
    assert tables["images"].sum() == tables["wins"].sum() == 16


def test_an_unconditional_network_looks_at_no_labels(run_training, tiny_net, prepared):
    here = run_training("with", start_of(tiny_net()), recipe())
    unlabelled = replace(prepared, labels=None, facts=prepared.facts | {"labels": None})
    bare = run_training("without", start_of(tiny_net()), recipe(), data=unlabelled)
    weights = "artifacts/models/{}/diffusion_pytorch_model.safetensors"
    assert (here.root / weights.format("with")).read_bytes() == (bare.root / weights.format("without")).read_bytes()


MOST = 1000 * 36


@pytest.mark.parametrize(
    ("model", "prediction", "training", "said"),
    [
        ({"prediction": "mixed"}, "mixed", {}, "prediction 'mixed' of child lacks a way to combine three heads$"),
        ({"prediction": "mixed"}, "epsilon", {}, "a recipe of prediction 'epsilon' cannot train 'mixed' of base on"),
        ({"autoencoder": "abc"}, "epsilon", {}, "'base' works in other latents than those of the data, or in pixels"),
        ({"timesteps": 60}, "epsilon", {}, "the sampler is made for 50 timesteps, the model for 60$"),
        (
            {},
            "epsilon",
            {"batch_size": MOST + 1},
            f"training.batch_size: {MOST + 1} of 36 training images; at most {MOST}",
        ),
    ],
)
def test_what_does_not_fit_is_not_trained_further(
    carried_out, tiny_net, make_record, model, prediction, training, said
):
    net = tiny_net(heads=3 if "prediction" in model else 1)
    parent = make_record(net, name="base", **model)
    with pytest.raises(UserError, match=f"^{said}"):
        carried_out("child", recipe(prediction), replace(start_of(net, parent.spec), parent=parent), **training)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_a_sampler_knows_what_an_error_of_epsilon_counts(prediction):
    """Min-SNR's weight of it is min(SNR, γ)/SNR, whatever is predicted."""

    class Curious(TimestepSampler):
        def set_loss_weights(self, weights: np.ndarray) -> None:
            self.heard = weights

    weight = TypeAdapter(AnyLossWeight).validate_python({"kind": "min_snr", "gamma": 5.0})
    chosen = recipe(prediction).model_copy(update={"loss_weight": weight})
    sampler = Curious(uniform(50))
    single_head(chosen, spec_of(prediction=prediction), torch.device("cpu"), sampler)
    snr = SCHEDULE.snr.numpy()
    np.testing.assert_allclose(sampler.heard, np.minimum(snr, 5) / snr)
