"""Measuring gradients of a network over cells: draws by the seed alone, lengths and means of what was drawn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from specs import recipe_of, spec_of
from torch import Tensor, nn

from unequal.data.prepared import tensor_of
from unequal.diffusion.predictions import NetworkFunction
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.loss_weights import LearnedClusterUncertainty
from unequal.settings.recipe import Conflicts, MeasuredGradients, Recipe
from unequal.timesteps.partition import Affinity, Partition, TimestepRange, equal_log_snr, gradient_clusters
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import Batch
from unequal.training.gradient_meter import GradientMeter, affinity_of
from unequal.training.initialisation import Scope, Start
from unequal.training.objectives import Losses, Objective, OverUncertainty, SingleHead
from unequal.training.results import write_results
from unequal.training.train import measured_affinity, single_head, surgery_of, train
from unequal.workspace import Chunks

CELLS = Partition([(0, 0), (1, 20), (21, 49)])
OBJECTIVE = SingleHead("epsilon", NoiseSchedule.linear(50))


@pytest.fixture
def meter(prepared, tiny_net):
    def make(seed: int = 0, dropout: float = 0.0) -> GradientMeter:
        net = tiny_net(dropout=dropout).train().requires_grad_(True)
        return GradientMeter(net, OBJECTIVE, tensor_of(prepared.train), 4, single_images=8, mean_images=16, seed=seed)

    return make


def test_timesteps_are_drawn_inside_the_cell(meter):
    generator = np.random.default_rng(0)
    for cell in CELLS:
        batch = meter().drawn(cell, 400, generator)
        assert (int(batch.timesteps.min()), int(batch.timesteps.max())) == cell
        assert torch.equal(batch.weights, torch.ones(400))


def test_a_cell_does_not_depend_on_the_others(meter):
    whole, alone = meter(dropout=0.3).sample(CELLS), meter(dropout=0.3).sample(CELLS[1:2])
    np.testing.assert_array_equal(whole.squares[1], alone.squares[0])
    np.testing.assert_allclose(whole.products[1, :, 1], alone.products[0, :, 0], rtol=1e-9)
    assert not np.array_equal(meter(seed=1).sample(CELLS[1:2]).squares, alone.squares)


def test_lengths_and_means_are_of_the_same_loss(meter):
    """With one image and one timestep, single gradients and means differ by the noise alone: E‖g‖² > ‖μ‖² > 0."""
    one, cell = meter(), TimestepRange(10, 10)
    single = GradientMeter(one.net, OBJECTIVE, one.images[:1], folds=4, single_images=64, mean_images=256, seed=0)
    moments = single.sample([cell]).moments()
    assert moments.second[0] > moments.products[0, 0] > 0
    generator = np.random.default_rng(5)
    batch = single.drawn(cell, 512, generator)
    gradient = torch.autograd.grad(OBJECTIVE(one.net, batch).weighted.mean(), list(one.net.parameters()))
    square = float(sum(part.double().square().sum() for part in gradient))
    assert moments.products[0, 0] == pytest.approx(square, rel=0.2)


SCHEDULE = NoiseSchedule.linear(50)
MEASURED = MeasuredGradients(cells=6, images=8)
#: Cells of equal log-SNR that hold a timestep.
AFFINITY_CELLS = equal_log_snr(SCHEDULE, 6, drop_empty=True)


class Weighed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor, timesteps: Tensor) -> Tensor:
        return torch.where(timesteps < AFFINITY_CELLS[2].first, self.low, self.high) * images.abs().mean((1, 2, 3))


class Answer(Objective):
    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        return Losses(net(batch.x0, batch.timesteps), {})  # type: ignore[arg-type]


def test_timesteps_that_move_the_same_weights_are_similar(prepared):
    found = affinity_of(Weighed(), Answer(), prepared, SCHEDULE, MEASURED, 0)
    assert found.cells == AFFINITY_CELLS
    low = np.arange(len(AFFINITY_CELLS)) < 2
    # Lengths are of other images than products.
    np.testing.assert_allclose(found.cosines, low[:, None] == low, atol=1e-3)
    assert gradient_clusters(found, 2) == Partition([(0, AFFINITY_CELLS[1].last), (AFFINITY_CELLS[2].first, 49)])


def test_it_is_measured_once(prepared, tmp_path):
    net, chunks = Weighed(), Chunks(tmp_path)
    before = affinity_of(net, Answer(), prepared, SCHEDULE, MEASURED, 0, chunks)
    with torch.no_grad():
        net.low.fill_(torch.nan)
    again = affinity_of(net, Answer(), prepared, SCHEDULE, MEASURED, 1, chunks)
    np.testing.assert_array_equal(before.cosines, again.cosines)


def recipe(**changes: Any) -> Recipe:
    return recipe_of(images=200, **({"gradients": MEASURED} | changes))


SURGERY = recipe(conflicts=Conflicts(kind="pcgrad", clusters=3, cluster_by="gradients"))
UNCERTAIN = recipe(
    loss_weight=LearnedClusterUncertainty(kind="cluster_uncertainty", clusters=3, cluster_by="gradients")
)


@pytest.fixture
def start(tiny_net, make_record):
    net, spec = tiny_net(), spec_of()
    return Start(net, spec, Scope.whole(spec), parent=make_record(net))


@pytest.mark.parametrize("chosen", [SURGERY, UNCERTAIN], ids=["conflicts", "uncertainty"])
def test_what_is_measured_counts_in_the_budget(here, job_of, start, chosen):
    outcome = train(here, job_of(chosen, "longer", batch_size=8), start, TimestepSampler(uniform(50)))
    # Measuring 6 cells takes 8 + 4 images each.
    assert outcome.trained.steps == (200 - 72) // 8
    assert outcome.trained.images_seen == 200
    write_results(here, outcome)
    measured = here.figures["results/metrics/train_longer.json"]["gradients"]
    assert np.shape(measured["cosines"]) == (len(measured["cells"]),) * 2
    (clusters,) = measured["clusters"]
    assert (len(clusters), clusters[0][0], clusters[-1][1]) == (3, 0, 49)


def test_clusters_go_by_what_was_measured(here, job_of, start):
    affinity, cost = measured_affinity(here, job_of(SURGERY), start)
    assert affinity is not None and cost == 72
    clusters = gradient_clusters(affinity, 3)
    surgery = surgery_of(SURGERY, start.spec, affinity)
    assert surgery is not None and surgery.clusters == clusters
    objective = single_head(UNCERTAIN, start.spec, here.device, TimestepSampler(uniform(50)), affinity)
    assert isinstance(objective, OverUncertainty)
    np.testing.assert_array_equal(objective.uncertainty.members, clusters.members)  # type: ignore[arg-type]
    # Others than those that nothing is measured for.
    assert clusters != equal_log_snr(SCHEDULE, 3)
    assert measured_affinity(here, job_of(recipe(gradients=None)), start) == (None, 0)


def test_fresh_weights_are_refused(here, job_of, start):
    with pytest.raises(UserError, match=r"^recipes\.longer\.gradients: measured where a model is trained further; thi"):
        measured_affinity(here, job_of(SURGERY, "longer"), replace(start, parent=None))


def test_a_gradient_that_is_lost_in_noise_is_refused():
    lost = Affinity(AFFINITY_CELLS, np.full((len(AFFINITY_CELLS),) * 2, np.nan))
    with pytest.raises(UserError, match="measure more images where a mean gradient is lost in noise"):
        surgery_of(SURGERY, spec_of(), lost)
