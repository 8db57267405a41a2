"""The whole of the pipeline's params.yaml: all sections, and the combinations that span them.

Only the gate stage `check_params` and the tools import this module. A stage reads its own
sections alone, so that a new key elsewhere does not make its results stale.
"""

from pathlib import Path
from typing import Self

from pydantic import model_validator

from unequal.errors import UserError
from unequal.settings.merging import Merging
from unequal.settings.params.compared import Compared
from unequal.settings.params.continued import Continued
from unequal.settings.params.grouped import Grouped
from unequal.settings.params.roles import FRESH, INSIDE_A_RANGE, THREE_HEADS, Role
from unequal.settings.params.slotted import Slotted
from unequal.settings.strict import PARAMS, read_yaml, validate

EXPERTS = ("experts_unpruned", "experts_pruned")
#: The unpruned experts as one model.
MERGED = "merged"


class Params(Continued, Slotted, Grouped, Compared):
    """params.yaml of the pipeline: every section."""

    merging: Merging

    @property
    def roles(self) -> dict[str, Role]:
        """Recipes of single stages, and the further ones."""
        own = {"base": FRESH, "slot": INSIDE_A_RANGE, "mixed": THREE_HEADS, "expert": INSIDE_A_RANGE}
        return own | super().roles

    @property
    def trained_models(self) -> tuple[str, ...]:
        """Models by the names of their folders."""
        slots = (f"slot_{slot}" for slot in self.slots.finetune)
        return ("base", "mixed", *self.further_recipes, *slots, MERGED)

    @property
    def expert_sets(self) -> tuple[str, ...]:
        """The experts of all groups, with and without pruning."""
        return EXPERTS

    @model_validator(mode="after")
    def slots_are_finetuned(self) -> Self:
        """The pipeline has a stage for it."""
        if not self.slots.finetune:
            raise ValueError("slots.finetune: []; the pipeline trains on inside one slot or more")
        return self

    @model_validator(mode="after")
    def experts_can_be_merged(self) -> Self:
        """Where every group's weight is given, there are as many as groups."""
        weights, groups = self.merging.weights, len(self.groups.ids)
        if isinstance(weights, tuple) and len(weights) != groups:
            raise ValueError(f"merging.weights: {len(weights)} weights for {groups} groups; allowed: one for each")
        return self


def read_pipeline_params(path: Path = PARAMS) -> Params:
    """Read and check the pipeline's params file, or a preset of it. Raises UserError."""
    document = read_yaml(path)
    if document.get("autoencoder") is not None:
        # Said first: files for latents leave sections out besides.
        raise UserError(
            f"{path}: autoencoder: the pipeline's models see pixels; docs/latents.md says how latents are trained on"
        )
    return validate(Params, document, path)
