"""Classifier-free guidance (2207.12598): sampling with answers that lead away from what is said without a label.

With the answers y to a label and ∅ to none, the guided answer is ∅ + w·(y − ∅). Predictions of ε, v, x0 or a velocity
are affine in one another at a given x_t and t, so that it makes no difference which of them is guided.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unequal.errors import UserError
from unequal.models.denoiser import Denoiser
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.evaluation import Guidance

#: Passes of a guided prediction: with the label and without.
PASSES = 2


class GuidedDenoiser(Denoiser):
    """A denoiser that is asked with a label and without at once.

    Raises:
        UserError: it has learned no answers without labels.
    """

    def __init__(self, denoiser: Denoiser, guidance: Guidance) -> None:
        vars(self).update(vars(denoiser))
        if (null := self.conditioning.null) is None:
            title = self.conditioning.title
            raise UserError(f"guidance: {title} has learned no answer without a label; needs dropped_labels")
        self.guidance, self.null = guidance, null

    def whole_answer(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        """Guided prediction of the network, followed by its output for the variance of a labelled image."""
        self.conditioning.check(self.condition)
        assert self.condition is not None
        both = self.conditioned(torch.cat([self.condition, torch.full_like(self.condition, self.null)]))
        inputs = torch.cat([x_t] * PASSES), torch.cat([timesteps] * PASSES)
        labelled, free = Denoiser.whole_answer(both, *inputs).chunk(PASSES)
        answers = len(self.heads) + self.learned_variance
        return guided_answer(labelled, free, self.guidance, labelled.shape[1] // answers, len(self.heads))


class GuidedEnsemble(Ensemble):
    """Denoisers that are all guided; each call of a network is two."""

    def __init__(self, ensemble: Ensemble, guidance: Guidance) -> None:
        experts = ((expert.denoiser, expert.record) for expert in ensemble.experts)
        super().__init__([Expert(GuidedDenoiser(denoiser, guidance), record) for denoiser, record in experts])
        self.offload = ensemble.offload

    def macs_per_image(self, timesteps: Sequence[int]) -> int:
        return PASSES * super().macs_per_image(timesteps)


def guided(ensemble: Ensemble, guidance: Guidance | None) -> Ensemble:
    """An ensemble with guidance; as it is without. Raises UserError where it has learned no answers without labels."""
    return ensemble if guidance is None else GuidedEnsemble(ensemble, guidance)


def guided_answer(labelled: Tensor, free: Tensor, guidance: Guidance, channels: int, heads: int) -> Tensor:
    """∅ + w·(y − ∅) in the channels that are guided, y in all others.

    Args:
        labelled, free: y and ∅, [B, answers, H, W]: predictions of each head, and what is said of the variance.
        guidance: w, and how many of a prediction's channels are guided.
        channels: of a prediction.
        heads: how many predictions there are.
    """
    place = torch.arange(labelled.shape[1], device=labelled.device)
    chosen = (place < heads * channels) & (place % channels < (guidance.channels or channels))
    return torch.where(chosen[:, None, None], free + guidance.scale * (labelled - free), labelled)
