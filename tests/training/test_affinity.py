"""Gradients of timesteps are measured before a training that goes by how alike they are."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from here import Here
from specs import spec_of
from torch import Tensor, nn

from unequal.data.prepared import PreparedData
from unequal.diffusion.predictions import NetworkFunction
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.folder import ModelRecord
from unequal.settings.loss_weights import LearnedClusterUncertainty, NoWeight
from unequal.settings.recipe import Conflicts, MeasuredGradients, Optimizer, Recipe
from unequal.settings.samplers import Uniform
from unequal.settings.training import Runtime, Training
from unequal.timesteps.clusters import Affinity, gradient_clusters
from unequal.timesteps.partition import Partition, equal_log_snr
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch
from unequal.training.gradient_meter import affinity_of
from unequal.training.initialisation import Scope, Start
from unequal.training.objectives.objective import Losses, Objective, OverUncertainty
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, measured_affinity, single_head, surgery_of, train
from unequal.workspace import Chunks

SCHEDULE = NoiseSchedule.linear(50)
MEASURED = MeasuredGradients(cells=6, images=8)
#: Of the chosen cells of equal log-SNR those that hold a timestep.
CELLS = equal_log_snr(SCHEDULE, 6, drop_empty=True)


class Weighed(nn.Module):
    """Two parameters: one that only low timesteps move, and one that high ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor, timesteps: Tensor) -> Tensor:
        return torch.where(timesteps < CELLS[2].first, self.low, self.high) * images.abs().mean((1, 2, 3))


class Answer(Objective):
    """What the network says."""

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        return Losses(net(batch.x0, batch.timesteps), {})  # type: ignore[arg-type]


def test_timesteps_that_move_the_same_weights_are_alike(prepared: PreparedData) -> None:
    found = affinity_of(Weighed(), Answer(), prepared, SCHEDULE, MEASURED, 0)
    assert found.cells == CELLS
    low = np.arange(len(CELLS)) < 2
    np.testing.assert_allclose(
        found.cosines, low[:, None] == low, atol=1e-3
    )  # lengths are of other images than products
    assert gradient_clusters(found, 2) == Partition([(0, CELLS[1].last), (CELLS[2].first, 49)])


def test_it_is_measured_once(prepared: PreparedData, tmp_path: Path) -> None:
    net, chunks = Weighed(), Chunks(tmp_path)
    before = affinity_of(net, Answer(), prepared, SCHEDULE, MEASURED, 0, chunks)
    with torch.no_grad():
        net.low.fill_(torch.nan)
    again = affinity_of(net, Answer(), prepared, SCHEDULE, MEASURED, 1, chunks)
    np.testing.assert_array_equal(before.cosines, again.cosines)


def recipe(images: int = 200, **changes: object) -> Recipe:
    chosen = {
        "images": images,
        "prediction": "epsilon",
        "sampler": Uniform(density="uniform"),
        "loss_weight": NoWeight(kind="none"),
        "optimizer": Optimizer(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0, warmup_images=0, decay="constant"),
        "gradients": MEASURED,
    }
    return Recipe.model_validate(chosen | changes)


SURGERY = recipe(conflicts=Conflicts(kind="pcgrad", clusters=3, cluster_by="gradients"))
UNCERTAIN = recipe(
    loss_weight=LearnedClusterUncertainty(kind="cluster_uncertainty", clusters=3, cluster_by="gradients")
)


@pytest.fixture
def trained(
    tmp_path: Path,
    runtime: Runtime,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
    training_settings: Callable[..., Training],
) -> Callable[..., tuple[Here, TrainingJob, Start]]:
    def make(chosen: Recipe, fresh: bool = False) -> tuple[Here, TrainingJob, Start]:
        net, spec = tiny_net(), spec_of()
        start = Start(net, spec, Scope.whole(spec), parent=None if fresh else make_record(net))
        return Here(tmp_path, runtime), TrainingJob("longer", chosen, training_settings(), prepared, 5), start

    return make


@pytest.mark.parametrize("chosen", [SURGERY, UNCERTAIN], ids=["conflicts", "uncertainty"])
def test_what_is_measured_counts_in_the_budget(trained: Callable[..., tuple[Here, TrainingJob, Start]], chosen: Recipe):
    here, job, start = trained(chosen)
    assert chosen.gradients is not None
    assert chosen.gradients.cost == 6 * (8 + 4)
    outcome = train(here, job, start, TimestepSampler(uniform(50)))
    batch = job.training.batch_size
    assert outcome.trained.steps == (200 - 72) // batch
    assert outcome.trained.images_seen == 200
    write_results(here, outcome)
    told = here.figures["results/metrics/train_longer.json"]["gradients"]
    assert np.shape(told["cosines"]) == (len(told["cells"]),) * 2
    (clusters,) = told["clusters"]
    assert (len(clusters), clusters[0][0], clusters[-1][1]) == (3, 0, 49)


def test_clusters_go_by_what_was_measured(trained: Callable[..., tuple[Here, TrainingJob, Start]]) -> None:
    here, job, start = trained(SURGERY)
    affinity, cost = measured_affinity(here, job, start)
    assert affinity is not None and cost == 72
    clusters = gradient_clusters(affinity, 3)
    surgery = surgery_of(SURGERY, start.spec, affinity)
    assert surgery is not None and surgery.clusters == clusters
    objective = single_head(UNCERTAIN, start.spec, here.device, TimestepSampler(uniform(50)), affinity)
    assert isinstance(objective, OverUncertainty)
    np.testing.assert_array_equal(objective.uncertainty.members, clusters.members)  # type: ignore[arg-type]
    # Others than those that nothing is measured for.
    assert clusters != equal_log_snr(SCHEDULE, 3)
    assert measured_affinity(here, TrainingJob("longer", recipe(gradients=None), *rest(job)), start) == (None, 0)


def rest(job: TrainingJob) -> tuple[Training, PreparedData, int]:
    return job.training, job.data, job.seed


def test_fresh_weights_are_refused(trained: Callable[..., tuple[Here, TrainingJob, Start]]) -> None:
    here, job, start = trained(SURGERY, fresh=True)
    with pytest.raises(
        UserError, match=r"^recipes\.longer\.gradients: measured of a model that is trained on; this one"
    ):
        measured_affinity(here, job, start)


def test_a_gradient_that_is_lost_in_noise_is_told(trained: Callable[..., tuple[Here, TrainingJob, Start]]) -> None:
    *_, start = trained(SURGERY)
    lost = Affinity(CELLS, np.full((len(CELLS),) * 2, np.nan))
    with pytest.raises(UserError, match="measure more images where a mean gradient is lost in noise"):
        surgery_of(SURGERY, start.spec, lost)
