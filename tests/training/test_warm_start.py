"""A training goes on from its model's average, or from where it was: last weights and moments."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from one_line import refusal
from specs import recipe_of
from tensors import equal

from unequal.data.prepared import tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.experts.plan import train_expert
from unequal.models.denoiser import Denoiser
from unequal.models.folder import STATE, load_model
from unequal.models.pruned import take_away
from unequal.settings.recipe import Recipe, WarmStart
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch, BatchSource
from unequal.training.checkpoint import TrainingState
from unequal.training.initialisation import Scope, Start, warm_start
from unequal.training.loop import Trainer
from unequal.training.objectives import SingleHead
from unequal.training.results import write_results
from unequal.training.timestep_files import NumberedGroup

CPU = torch.device("cpu")
OBJECTIVE, SCHEDULE = SingleHead(), NoiseSchedule.linear(50)
AS_IT_WAS = WarmStart(weights="last", moments="carried")
PLAIN: dict[str, Any] = {"lr": 2e-3, "weight_decay": 0.01}


@dataclass(frozen=True)
class Later(BatchSource):
    """The batches of a source from a step on."""

    after: int = 0

    def draw(self, step: int, part: slice = slice(None)) -> Batch:
        return super().draw(self.after + step, part)


def recipe(warm_start: WarmStart = AS_IT_WAS, **changes: Any) -> Recipe:
    facts = {"warm_start": warm_start, "keep_state": True, "optimizer": PLAIN} | changes
    return recipe_of(**facts)


@pytest.fixture
def trained(carried_out):
    def run(name: str, chosen: Recipe, start: Start | None = None) -> Path:
        return carried_out(name, chosen, start).root / f"artifacts/models/{name}"

    return run


@pytest.fixture
def stretch(tmp_path, runtime, prepared, tiny_net, training_settings):
    def run(work: str, steps: int, after: int = 0, state: TrainingState | None = None, **chosen: Any) -> TrainingState:
        net = tiny_net(middle_attention=False)
        if state is not None:
            net.load_state_dict(state.weights)
        source = Later(tensor_of(prepared.train), 4, TimestepSampler(uniform(50)), 0, True, CPU, after=after)
        optimizer, carried = recipe(optimizer=PLAIN | chosen).optimizer, None if state is None else state.moments
        rest = {"training": training_settings(), "runtime": runtime, "images": 4 * steps, "work": tmp_path / work}
        denoiser = Denoiser(net, SCHEDULE, "epsilon")
        trainer = Trainer(
            denoiser, source, OBJECTIVE, optimizer=optimizer, log=lambda *_: None, carried=carried, **rest
        )
        end = trainer.run().end
        assert end is not None
        return end.state()

    return run


@pytest.mark.parametrize("optimizer", [{}, {"name": "sgd", "betas": (0.9, 0.999), "lr": 1e-2}], ids=["adamw", "sgd"])
def test_two_stretches_that_carry_all_on_are_one(stretch, optimizer):
    whole = stretch("whole", 8, **optimizer)
    first = stretch("first", 4, **optimizer)
    second = stretch("second", 4, after=4, state=first, **optimizer)
    assert equal(second.weights, whole.weights) and equal(second.moments, whole.moments)
    forgetful = stretch("forgetful", 4, after=4, state=replace(first, moments={}), **optimizer)
    assert not torch.equal(forgetful.weights["conv_in.weight"], whole.weights["conv_in.weight"])


def test_a_model_keeps_its_training_s_last_weights_and_moments(trained):
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


def test_what_a_recipe_asks_for_is_where_a_training_goes_on_from(trained):
    folder = trained("base", recipe(WarmStart()))
    average, state = load_model(folder)[0].state_dict(), TrainingState.load(folder)
    for weights, moments in product(("averaged", "last"), ("fresh", "carried")):
        start = Start.of_model(folder)
        carried = warm_start(start, recipe(WarmStart(weights=weights, moments=moments)))
        assert (carried is None) == (moments == "fresh")
        assert carried is None or equal(carried, state.moments)
        assert equal(start.net.state_dict(), average if weights == "averaged" else state.weights)


def steps_of(folder: Path) -> set[float]:
    return {float(value) for name, value in TrainingState.load(folder).moments.items() if name.endswith(".step")}


def test_a_training_goes_on_as_its_recipe_says(trained):
    base = trained("base", recipe(WarmStart()))
    carried = trained("carried", recipe(), Start.of_model(base))
    assert steps_of(carried) == {8}
    assert steps_of(trained("fresh", recipe(WarmStart(weights="last")), Start.of_model(base))) == {4}
    # A snapshot, or a model that went on itself, is gone on from alike.
    assert steps_of(trained("further", recipe(), Start.of_model(carried))) == {12}


def test_an_expert_carries_the_moments_of_its_base(here, job_of, trained):
    base, job = trained("base", recipe(WarmStart())), job_of(recipe(sampler={"density": "slot"}), "expert")
    outcome = train_expert(here, job, base, NumberedGroup(group=0, first=0, last=9, limit_ratio=1.0), 2)
    write_results(here, outcome)
    assert outcome.start.scope.range == (0, 9)
    assert steps_of(here.root / "artifacts/models/expert") == {8}


def test_a_branch_begins_at_an_earlier_point(trained):
    kept = recipe(WarmStart()).model_copy(update={"snapshots": (8,)})
    base = trained("base", kept)
    assert steps_of(base / "snapshots/8") == {2}
    branch = trained("branch", recipe(), Start.of_model(base / "snapshots/8"))
    assert steps_of(branch) == {2 + 4}
    bare = trained("bare", kept.model_copy(update={"keep_state": False}))
    assert not (bare / STATE).exists()
    assert not (bare / "snapshots/8" / STATE).exists()


def pruned(folder: Path) -> Start:
    net, parent = load_model(folder)
    removals = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])]
    take_away(net, removals)
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


SGD = {"name": "sgd", "betas": (0.9, 0.999)}
REFUSED: list[tuple[Callable[[Path], Start], dict[str, Any], str]] = [
    (without_state, {}, "keeps no state of its training for warm_start: weights last, moments carried; set keep_"),
    (pruned, {}, "a pruned network starts with weights averaged, moments fresh"),
    (damaged, {}, "make the model again"),
    (of_another_network, {}, "training_state.safetensors: the state of another network; make the model again"),
    (Start.of_model, SGD, "which 'adamw' has trained, to 'sgd'; allowed"),
    (lambda folder: Start.of_model(folder).renewed(0), {}, "in a training that begins with fresh weights"),
]


def test_what_cannot_be_gone_on_from_is_refused(trained, tmp_path):
    base = trained("base", recipe(WarmStart()))
    for number, (make, chosen, said) in enumerate(REFUSED):
        start = make(shutil.copytree(base, tmp_path / f"copy_{number}"))
        assert said in refusal(lambda start=start, chosen=chosen: warm_start(start, recipe(optimizer=PLAIN | chosen)))
