"""Labels withheld from a share of each batch, so that a class-conditional network also learns to answer without any.

Withheld labels are a function of seed and step, as all else of a batch is: they do not depend on how many processes
share it, and a resumed training withholds the same.
"""

from dataclasses import dataclass, fields, replace

import torch

from unequal.randomness import Stream, numpy_generator
from unequal.settings.condition import Condition, DroppedLabels
from unequal.training.batches import Batch, BatchSource


@dataclass(frozen=True)
class WithholdingSource(BatchSource):
    """Draws batches of which each label has become the `null` class with probability `share`."""

    null: int = 0
    share: float = 0.0

    def draw(self, step: int, part: slice = slice(None)) -> Batch:
        """The batch of a step, or a process's part of it; what its labels do not tell is drawn as without dropout."""
        batch = super().draw(step, part)
        assert batch.labels is not None
        coins = numpy_generator(self.seed, Stream.LABEL_DROPOUT, step).random(self.batch_size) < self.share
        withheld = torch.from_numpy(coins[part]).to(batch.labels.device, non_blocking=True)
        return replace(batch, labels=torch.where(withheld, self.null, batch.labels))


def withholding(source: BatchSource, condition: Condition) -> BatchSource:
    """The same batches with as many labels withheld as a condition says; as they are where it says nothing of it."""
    return withholding_by(source, condition) if isinstance(condition, DroppedLabels) else source


def withholding_by(source: BatchSource, condition: DroppedLabels) -> WithholdingSource:
    """The same batches with labels withheld."""
    drawn = {field.name: getattr(source, field.name) for field in fields(BatchSource)}
    return WithholdingSource(**drawn, null=condition.null, share=condition.dropout)
