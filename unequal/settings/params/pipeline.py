"""The whole of the pipeline's params.yaml: all sections, and the combinations that span them.

Only the gate stage `check_params` and the tools import this module. A stage reads its own
sections alone, so that a new key elsewhere does not make its results stale.
"""

from typing import Self

from pydantic import model_validator

from unequal.settings.groups import Merging
from unequal.settings.params.core import FRESH, INSIDE_A_RANGE, PRUNED, THREE_HEADS, Role
from unequal.settings.params.sections import Compared, Continued, Grouped, Slotted
from unequal.settings.values import LARGEST_SEED, Replicas

EXPERTS = ("experts_unpruned", "experts_pruned")
#: The unpruned experts as one model.
MERGED = "merged"


class Params(Continued, Slotted, Grouped, Compared):
    """params.yaml of the pipeline: every section."""

    replicas: Replicas
    merging: Merging

    @property
    def roles(self) -> dict[str, Role]:
        """Recipes of single stages, and the further ones."""
        own = {"base": FRESH, "slot": INSIDE_A_RANGE, "mixed": THREE_HEADS, "expert": PRUNED}
        return own | super().roles

    @property
    def trained_models(self) -> tuple[str, ...]:
        """Models by the names of their folders."""
        slots = (f"slot_{slot}" for slot in self.slots.finetune)
        return ("base", "mixed", *self.finetune_recipes, *slots, MERGED)

    @property
    def expert_sets(self) -> tuple[str, ...]:
        """The experts of all groups, with and without pruning."""
        return EXPERTS

    @property
    def spaced_by_profile(self) -> bool:
        """The base is profiled before anything is sampled."""
        return True

    @model_validator(mode="after")
    def replicas_have_seeds(self) -> Self:
        """Each has a seed of its own, and sampling seeds of its own (`unequal.pipeline.replicas`)."""
        sampled = self.evaluation.seeds
        last = max(self.seed + self.replicas, max(sampled) + self.replicas * (max(sampled) - min(sampled) + 1))
        if last > LARGEST_SEED:
            raise ValueError(f"replicas: {self.replicas} of them have seeds of up to {last}; allowed: {LARGEST_SEED}")
        return self

    @model_validator(mode="after")
    def slots_are_finetuned(self) -> Self:
        """The pipeline has a stage for it."""
        if not self.slots.finetune:
            raise ValueError("slots.finetune: []; the pipeline trains on inside one slot or more")
        return self

    @model_validator(mode="after")
    def experts_can_be_merged(self) -> Self:
        """Weights of single groups are as many as groups."""
        weights, groups = self.merging.weights, len(self.groups.ids)
        if isinstance(weights, tuple) and len(weights) != groups:
            raise ValueError(f"merging.weights: {len(weights)} weights for {groups} groups; allowed: one for each")
        return self
