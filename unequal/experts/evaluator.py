"""Evaluation of a scheme: the network that it makes of the target's, and its loss on the target's timesteps."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from unequal.errors import UserError
from unequal.experts.anatomy import Anatomy, Scheme, Unit, scaled_order
from unequal.experts.fit import PrunedNetwork, fit_to_limit
from unequal.experts.importance import Target
from unequal.models.backbones.backbone import training_flops
from unequal.models.denoiser import Denoiser
from unequal.randomness import Stream, torch_seed
from unequal.settings.pruning import Finetuning
from unequal.settings.recipe import Optimizer
from unequal.settings.training import ExponentialAverage, Training
from unequal.training.loop import Trainer

if TYPE_CHECKING:  # what shapes no result
    from unequal.settings.training import Runtime

#: Steps of fine-tuning between two resumable states.
CHECKPOINT_STEPS = 500
#: Purposes of drawn batches: schemes are chosen by those that are measured, what is chosen is scored by fresh ones.
MEASURED, FINETUNED, FRESH = 0, 1, 2


@dataclass(frozen=True)
class Evaluator:
    """Tries schemes, all under the same conditions.

    Attributes:
        target: what is pruned, and for what.
        anatomy: of its network.
        ranking: which units of a block go first.
        images: behind a loss; the same draws for every scheme.
        finetuning: what is trained before the loss is measured, None for nothing.
        runtime: where that happens.
    """

    target: Target
    anatomy: Anatomy
    ranking: list[Unit]
    images: int
    finetuning: Finetuning | None
    runtime: "Runtime"

    def prune(self, scheme: Scheme) -> PrunedNetwork:
        return fit_to_limit(self.anatomy, scaled_order(self.ranking, scheme), self.target.limit_macs)

    def fresh_loss(self, scheme: Scheme, work: Path) -> float:
        """Loss of a scheme's network on draws by which no scheme is chosen."""
        return self.loss(self.prune(scheme).net, work, FRESH)

    def loss(self, net: nn.Module, work: Path, draws: int = MEASURED) -> float:
        """Loss at the timesteps of the target, after the fine-tuning, which changes the network.

        Raises:
            UserError: it is NaN or infinite.
        """
        if self.finetuning is not None:
            self.finetune(net, self.finetuning, work)
        source = self.target.source("group", self.images, torch_seed(self.target.seed, Stream.PRUNING, draws))
        objective, total = self.target.objective(), 0.0
        with torch.no_grad():
            for start in range(0, self.images, self.target.images_at_once):
                batch = source.draw(0, slice(start, start + self.target.images_at_once))
                denoiser = Denoiser.of(net, self.target.record.spec).conditioned_on(batch.x0, batch.labels)
                total += float(objective(denoiser, batch).weighted.double().sum())
        if not total < float("inf"):
            raise UserError(f"pruning: the loss of a pruned network is {total / self.images}; is the base's finite?")
        return total / self.images

    def finetune(self, net: nn.Module, settings: Finetuning, work: Path) -> None:
        """Train a pruned network for a while, in place, at the timesteps of the target."""
        seed = torch_seed(self.target.seed, Stream.PRUNING, FINETUNED)
        Trainer(
            Denoiser.of(net, self.target.record.spec),
            self.target.source("group", settings.batch_size, seed),
            self.target.objective(),
            optimizer=Optimizer(
                lr=settings.lr, betas=(0.9, 0.999), weight_decay=0.0, warmup_images=0, decay="constant"
            ),
            training=Training(
                batch_size=settings.batch_size,
                gradient_accumulation=1,
                gradient_clip=1.0,
                average=ExponentialAverage(kind="exponential", decay=0.0),
                horizontal_flips=False,
                precision="fp32",
                log_every=CHECKPOINT_STEPS,
                checkpoint_every=CHECKPOINT_STEPS,
            ),
            runtime=self.runtime.model_copy(update={"compile": False, "progress": False}),
            images=settings.images,
            work=work,
            log=lambda figures, step: None,
        ).run()

    def flops(self, macs: int) -> int:
        return self.images * macs + (training_flops(macs, self.finetuning.images) if self.finetuning else 0)
