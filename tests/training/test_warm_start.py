"""A training goes on from its model's average, or from where it was: last weights and moments."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from here import Here
from specs import spec_of

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.folder import STATE, load_model
from unequal.models.pruned import replay
from unequal.settings.loss_weights import NoWeight
from unequal.settings.recipe import Optimizer, Recipe, WarmStart
from unequal.settings.samplers import Uniform
from unequal.settings.training import Runtime
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch, BatchSource
from unequal.training.checkpoint import TrainingState
from unequal.training.initialisation import Scope, Start, warm_start
from unequal.training.loop import Trainer
from unequal.training.objectives import SingleHead
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train

CPU = torch.device("cpu")
OBJECTIVE = SingleHead("epsilon", NoiseSchedule.linear(50))
AS_IT_WAS = WarmStart(weights="last", moments="carried")
PLAIN: dict[str, Any] = {
    "lr": 2e-3,
    "betas": (0.9, 0.99),
    "weight_decay": 0.01,
    "warmup_images": 0,
    "decay": "constant",
}


@dataclass(frozen=True)
class Later(BatchSource):
    """The batches of a source from a step on."""

    after: int = 0

    def draw(self, step: int, part: slice = slice(None)) -> Batch:
        return super().draw(self.after + step, part)


def recipe(warm_start: WarmStart = AS_IT_WAS, sampler: Any = None, keep_state: bool = True, **optimizer: Any) -> Recipe:
    return Recipe(
        images=16,
        prediction="epsilon",
        sampler=sampler or Uniform(density="uniform"),
        loss_weight=NoWeight(kind="none"),
        optimizer=Optimizer(**(PLAIN | optimizer)),
        warm_start=warm_start,
        keep_state=keep_state,
    )


@pytest.fixture
def trained(
    tmp_path: Path, runtime: Runtime, prepared: PreparedData, tiny_net: Callable, training_settings: Callable
) -> Callable:
    """Train fresh weights, or a start, by a recipe; the model's folder."""

    def run(name: str, chosen: Recipe, start: Start | None = None) -> Path:
        here, spec = Here(tmp_path / name, runtime), spec_of()
        job = TrainingJob(name, chosen, training_settings(), prepared, 5)
        start = start or Start(tiny_net(), spec, Scope.whole(spec))
        write_results(here, train(here, job, start, TimestepSampler(uniform(50))))
        return here.root / f"artifacts/models/{name}"

    return run


@pytest.fixture
def stretch(
    tmp_path: Path, runtime: Runtime, prepared: PreparedData, tiny_net: Callable, training_settings: Callable
) -> Callable:
    """The state after a stretch of steps of one long stream of batches, from the state of an earlier one on."""

    def run(work: str, steps: int, after: int = 0, state: TrainingState | None = None, **chosen: Any) -> TrainingState:
        net = tiny_net(middle_attention=False)
        if state is not None:
            net.load_state_dict(state.weights)
        source = Later(tensor_of(prepared.train), 4, TimestepSampler(uniform(50)), 0, True, CPU, after=after)
        trainer = Trainer(
            net,
            source,
            OBJECTIVE,
            optimizer=Optimizer(**(PLAIN | chosen)),
            training=training_settings(),
            runtime=runtime,
            images=4 * steps,
            work=tmp_path / work,
            log=lambda *_: None,
            carried=None if state is None else state.moments,
        )
        end = trainer.run().end
        assert end is not None
        return end.state()

    return run


def assert_equal(one: TrainingState, other: TrainingState) -> None:
    for found, expected in ((one.weights, other.weights), (one.moments, other.moments)):
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("optimizer", [{}, {"name": "sgd", "betas": (0.9, 0.999), "lr": 1e-2}], ids=["adamw", "sgd"])
def test_two_stretches_that_carry_all_on_are_one(stretch: Callable, optimizer: Any) -> None:
    whole = stretch("whole", 8, **optimizer)
    first = stretch("first", 4, **optimizer)
    assert_equal(stretch("second", 4, after=4, state=first, **optimizer), whole)
    forgetful = stretch("forgetful", 4, after=4, state=replace(first, moments={}), **optimizer)
    assert not torch.equal(forgetful.weights["conv_in.weight"], whole.weights["conv_in.weight"])


def test_a_model_keeps_its_training_s_last_weights_and_moments(trained: Callable) -> None:
    folder = trained("base", recipe(WarmStart()))
    state, (net, _) = TrainingState.load(folder), load_model(folder)
    parameters = dict(net.named_parameters())
    assert state.optimizer == "adamw"
    assert state.fits(net)
    assert {name.rpartition(".")[0] for name in state.moments} == set(parameters)
    for name, value in parameters.items():
        assert float(state.moments[f"{name}.step"]) == 4
        assert state.moments[f"{name}.exp_avg"].shape == value.shape
    # What a model is asked with is the average, which lies behind.
    assert not torch.equal(state.weights["conv_in.weight"], parameters["conv_in.weight"])


@pytest.mark.parametrize("weights", ["averaged", "last"])
@pytest.mark.parametrize("moments", ["fresh", "carried"])
def test_what_a_recipe_asks_for_is_where_a_training_goes_on_from(trained: Callable, weights: Any, moments: Any) -> None:
    folder = trained("base", recipe(WarmStart()))
    start, state = Start.of_model(folder), TrainingState.load(folder)
    average = {name: value.clone() for name, value in start.net.state_dict().items()}
    carried = warm_start(start, recipe(WarmStart(weights=weights, moments=moments)))
    assert (carried is None) == (moments == "fresh")
    assert carried is None or all(torch.equal(carried[name], value) for name, value in state.moments.items())
    expected = average if weights == "averaged" else state.weights
    assert all(torch.equal(value, expected[name]) for name, value in start.net.state_dict().items())


def steps_of(folder: Path) -> set[float]:
    """Adam's numbers of steps in a model's state."""
    return {float(value) for name, value in TrainingState.load(folder).moments.items() if name.endswith(".step")}


def test_a_training_goes_on_as_its_recipe_says(trained: Callable) -> None:
    base = trained("base", recipe(WarmStart()))
    carried = trained("carried", recipe(), Start.of_model(base))
    assert steps_of(carried) == {8}
    assert steps_of(trained("fresh", recipe(WarmStart(weights="last")), Start.of_model(base))) == {4}
    # A snapshot, or a model that went on itself, is gone on from alike.
    assert steps_of(trained("further", recipe(), Start.of_model(carried))) == {12}


def test_a_branch_begins_at_an_earlier_point(trained: Callable) -> None:
    kept = recipe(WarmStart()).model_copy(update={"snapshots": (8,)})
    base = trained("base", kept)
    assert steps_of(base / "snapshots/8") == {2}
    branch = trained("branch", recipe(), Start.of_model(base / "snapshots/8"))
    assert steps_of(branch) == {2 + 4}
    bare = trained("bare", kept.model_copy(update={"keep_state": False}))
    assert not (bare / STATE).exists()
    assert not (bare / "snapshots/8" / STATE).exists()


def pruned(folder: Path) -> Start:
    """What pruning leaves of a model has no state."""
    net, parent = load_model(folder)
    removals = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])]
    replay(net, removals)
    (folder / STATE).unlink()
    return Start(net, parent.spec, Scope.whole(parent.spec), parent, removals, folder)


def of_another_network(folder: Path) -> Start:
    state = TrainingState.load(folder)
    weights = {name: value[..., :1] if value.ndim == 4 else value for name, value in state.weights.items()}
    replace(state, weights=weights).save(folder)
    return Start.of_model(folder)


def without_state(folder: Path) -> Start:
    (folder / STATE).unlink()
    return Start.of_model(folder)


def damaged(folder: Path) -> Start:
    (folder / STATE).write_bytes((folder / STATE).read_bytes()[:-4])
    return Start.of_model(folder)


@pytest.mark.parametrize(
    ("make", "chosen", "said"),
    [
        (without_state, {}, "keeps no state of its training for warm_start: weights last, moments carried; set keep_"),
        (pruned, {}, "a pruned network starts with weights averaged, moments fresh"),
        (damaged, {}, "make the model again"),
        (of_another_network, {}, "training_state.safetensors: the state of another network; make the model again"),
        (Start.of_model, {"name": "sgd", "betas": (0.9, 0.999)}, "which 'adamw' has trained, to 'sgd'; allowed"),
        (lambda folder: Start.of_model(folder).renewed(0), {}, "in a training that begins with fresh weights"),
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(
    trained: Callable, make: Callable[[Path], Start], chosen: dict[str, Any], said: str
) -> None:
    start = make(trained("base", recipe(WarmStart())))
    with pytest.raises(UserError) as caught:
        warm_start(start, recipe(**chosen))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
