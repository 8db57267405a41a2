"""What is done with networks is done with a transformer: experts, merging, interference, resuming, half precision."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from here import Here
from specs import dropped_labels, spec_of
from torch import Tensor

from unequal.data.prepared import PreparedData, tensor_of
from unequal.models.backbones.backbone import count_cost
from unequal.models.folder import load_model, load_record, load_removals, save_model
from unequal.models.pruned import load_any_model
from unequal.models.weights import merge
from unequal.pruning.anatomy import Anatomy
from unequal.pruning.fit import fit_to_limit
from unequal.pruning.importance import Target, ranked
from unequal.sampling.ensemble import Ensemble
from unequal.settings.loss_weights import NoWeight
from unequal.settings.pruning import Magnitude
from unequal.settings.recipe import Optimizer, Recipe
from unequal.settings.samplers import Slot
from unequal.settings.training import Runtime
from unequal.timesteps.partition import TimestepRange
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import BatchSource, withholding
from unequal.training.initialisation import Scope, Start
from unequal.training.loop import Trainer
from unequal.training.objectives import objective_for
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train_further

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
LABELS = dropped_labels(2, 0.5)
BuildDiT = Callable
MakeRecord = Callable
OPTIMIZER = Optimizer(lr=2e-3, betas=(0.9, 0.99), weight_decay=0.0, warmup_images=0, decay="constant")


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    """Each run stands for a process of its own."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def train(tmp_path: Path, prepared: PreparedData, training_settings: Callable, runtime: Runtime) -> Callable:
    """Train a model folder on inside a range of timesteps; the folder of what comes out."""

    def make(base: Path, first: int, last: int, group: int) -> Path:
        recipe = Recipe(
            images=40,
            prediction="epsilon",
            sampler=Slot(density="slot"),
            loss_weight=NoWeight(kind="none"),
            optimizer=OPTIMIZER,
        )
        name = f"experts/group_{group}"
        here, job = (
            Here(tmp_path / f"run_{group}", runtime),
            TrainingJob(name, recipe, training_settings(), prepared, 5),
        )
        start = Start.of_model(base, Scope(TimestepRange(first, last), group, 2), load_any_model)
        write_results(here, train_further(here, job, start))
        return tmp_path / f"run_{group}" / "artifacts/models" / name

    return make


def test_experts_are_trained_routed_and_merged(
    tmp_path: Path, tiny_dit: BuildDiT, make_record: MakeRecord, train: Callable, prepared: PreparedData
) -> None:
    net = tiny_dit(condition=LABELS)
    save_model(tmp_path / "base", net, make_record(net, condition=LABELS))
    folders = [train(tmp_path / "base", *bounds, group) for group, bounds in enumerate([(0, 19), (20, 49)])]
    together = tmp_path / "experts"
    together.mkdir()
    for group, folder in enumerate(folders):
        folder.rename(together / f"group_{group}")
    experts = Ensemble.load(together)
    assert experts.steps_per_expert([40, 30, 5]) == [1, 2]
    base, two = load_model(tmp_path / "base")[0], [load_model(together / f"group_{i}")[0] for i in range(2)]
    x, t, y = torch.randn(2, 1, 8, 8), torch.tensor([30, 30]), torch.tensor([0, 2])
    routed = experts.of(30).denoiser.net(x, t, y).sample
    assert torch.equal(routed, two[1](x, t, y).sample)
    assert not torch.equal(routed, two[0](x, t, y).sample)
    merged = merge(base.state_dict(), (one.state_dict() for one in two), [0.5, 0.5]).weights
    for name, weight in merged.items():
        halfway = (two[0].state_dict()[name] + two[1].state_dict()[name]) / 2
        assert torch.allclose(weight, halfway, atol=1e-6)
    base.load_state_dict(merged)
    assert bool(base(x, t, y).sample.isfinite().all())


def test_a_pruned_expert_is_trained_on_as_it_is(
    tmp_path: Path, tiny_dit: BuildDiT, make_record: MakeRecord, train: Callable, prepared: PreparedData
) -> None:
    net = tiny_dit(depth=3).eval()
    target = Target(
        net, make_record(net), tensor_of(prepared.train), TimestepRange(0, 19), 0.5 * count_cost(net).macs, 0
    )
    anatomy = Anatomy(net)
    pruned = fit_to_limit(anatomy, ranked(Magnitude(method="magnitude"), target, anatomy), target.limit_macs)
    save_model(tmp_path / "pruned", pruned.net, make_record(pruned.net), pruned.removals)
    folder = train(tmp_path / "pruned", 0, 19, 0)
    assert load_removals(folder) == load_removals(tmp_path / "pruned")
    assert load_record(folder).macs == pruned.cost.macs <= target.limit_macs
    after, _ = load_any_model(folder)
    assert not torch.equal(after.blocks[0].attn.qkv.weight, pruned.net.blocks[0].attn.qkv.weight)


class Stop(Exception):
    """The process is ended from outside."""


@pytest.fixture(params=[("epsilon", "linear"), ("velocity", "flow")], ids=["noise", "flow"])
def build(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    prepared: PreparedData,
    tiny_dit: BuildDiT,
    training_settings: Callable,
    runtime: Runtime,
) -> Callable:
    """A trainer of a transformer that half of the labels are withheld from, in the work folder of that name."""

    def make(work: str, stop_at: int | None = None, compile: bool = False, **training: Any) -> Trainer:
        def log(figures: dict[str, float], step: int) -> None:
            if step == stop_at:
                raise Stop

        prediction, schedule = request.param
        settings, spec = training_settings(**training), spec_of(prediction, schedule=schedule, condition=LABELS)
        images, labels = tensor_of(prepared.train), prepared.train_labels
        source = BatchSource(images, settings.batch_size, TimestepSampler(uniform(50)), 0, True, CPU, labels=labels)
        return Trainer(
            tiny_dit(condition=LABELS),
            withholding(source, LABELS),
            objective_for(spec, spec.noise_schedule()),
            optimizer=OPTIMIZER,
            training=settings,
            runtime=runtime.model_copy(update={"compile": compile}),
            images=40,
            work=tmp_path / work,
            log=log,
        )

    return make


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return dict(trainer.net.state_dict())


def test_a_killed_run_ends_as_if_never_killed(build: Callable) -> None:
    through = build("through")
    through.run()
    with pytest.raises(Stop):
        build("killed", stop_at=6).run()
    resumed = build("killed")
    assert resumed.step == 4
    resumed.run()
    for name, value in weights(through).items():
        assert torch.equal(value, weights(resumed)[name]), name
    # What stands for no label has learned, and so have both labels.
    moved = through.net.y_embedder.embedding_table.weight.std(dim=1)
    assert (moved > 0).all()


@pytest.mark.thorough
def test_compiled_it_trains_the_same(build: Callable) -> None:
    plain, compiled = build("plain"), build("compiled", compile=True)
    plain.run()
    compiled.run()
    for name, value in shaping(plain).items():
        torch.testing.assert_close(shaping(compiled)[name], value, rtol=1e-3, atol=1e-4)


def shaping(trainer: Trainer) -> dict[str, Tensor]:
    """The weights without the biases of keys: a softmax is the same for any, so Adam takes steps of rounding errors."""
    found = weights(trainer)
    biases = {name: value.chunk(3) for name, value in found.items() if name.endswith("qkv.bias")}
    assert len(biases) > 0
    return found | {name: torch.cat([queries, values]) for name, (queries, _, values) in biases.items()}
