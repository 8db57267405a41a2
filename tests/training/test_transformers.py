"""What is done with networks is done with a transformer: experts, merging, interference, resuming, half precision."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from here import Here
from specs import dropped_labels, recipe_of
from torch import Tensor

from unequal.data.prepared import PreparedData
from unequal.models.folder import load_model, save_model
from unequal.models.pruned import load_any_model
from unequal.models.weights import merge
from unequal.sampling.ensemble import Ensemble
from unequal.settings.samplers import Slot
from unequal.settings.training import Runtime
from unequal.timesteps.partition import TimestepRange
from unequal.training.initialisation import Scope, Start
from unequal.training.loop import Trainer
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train_further

pytestmark = pytest.mark.slow

LABELS = dropped_labels(2, 0.5)


@pytest.fixture
def train(tmp_path: Path, prepared: PreparedData, training_settings: Callable, runtime: Runtime) -> Callable:
    def make(base: Path, first: int, last: int, group: int) -> Path:
        recipe = recipe_of(images=40, sampler=Slot(density="slot"), optimizer={"lr": 2e-3})
        name = f"experts/group_{group}"
        here, job = (
            Here(tmp_path / f"run_{group}", runtime),
            TrainingJob(name, recipe, training_settings(), prepared, 5),
        )
        start = Start.of_model(base, Scope(TimestepRange(first, last), group, 2), load_any_model)
        write_results(here, train_further(here, job, start))
        return tmp_path / f"run_{group}" / "artifacts/models" / name

    return make


def test_experts_are_trained_routed_and_merged(tmp_path, tiny_dit, make_record, train: Callable, prepared):
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


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return dict(trainer.net.state_dict())
