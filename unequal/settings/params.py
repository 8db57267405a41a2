"""The whole of the pipeline's params.yaml, from sections that a study's file may have too.

The gate stage `check_params` and the tools read the whole. A stage reads its own sections alone, so that a new key
elsewhere does not make its results stale.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from unequal.diffusion.schedule import noise_schedule
from unequal.errors import UserError
from unequal.settings.core import CONTINUED, FRESH, INSIDE_A_RANGE, PRUNED, THREE_HEADS, Core, Role, check_models
from unequal.settings.evaluation import BY_PROFILE, Evaluation, Extractor, Profile, Sampling, Slots
from unequal.settings.groups import Groups
from unequal.settings.pruning import Pruning
from unequal.settings.values import Name
from unequal.timesteps.building import sampler_inside
from unequal.timesteps.groups import foreseen_groups, planned_groups


class Sampled(Core):
    """Models make pictures."""

    sampling: Sampling
    #: Whether the base's losses are known when models are sampled.
    spaced_by_profile: ClassVar[bool] = False

    @property
    def samples_three_heads(self) -> bool:
        """True where a model of three heads is sampled."""
        return False

    @model_validator(mode="after")
    def sampling_fits_the_schedule(self) -> Self:
        """Sampling asks for timesteps that there are."""
        timesteps, steps = self.schedule.timesteps, self.sampling.steps
        if isinstance(steps, int) and steps > timesteps:
            raise ValueError(f"sampling.steps: {steps} steps of {timesteps} timesteps; at most schedule.timesteps")
        if isinstance(steps, tuple) and steps[0] >= timesteps:
            raise ValueError(f"sampling.steps: {steps[0]} reaches beyond the last timestep {timesteps - 1}")
        return self

    @model_validator(mode="after")
    def spacing_has_its_profile(self) -> Self:
        """Spacing by a profile needs a stage that reads one."""
        if self.sampling.spacing in BY_PROFILE and not self.spaced_by_profile:
            raise ValueError(
                f"sampling.spacing: '{self.sampling.spacing}'; no loss profile is at hand where this file's models are "
                "sampled"
            )
        return self

    @model_validator(mode="after")
    def learned_variance_is_there(self) -> Self:
        """Sampling with a learned variance needs a model that has one; three heads have none."""
        if self.sampling.variance != "learned":
            return self
        if self.network.variance != "learned":
            raise ValueError("sampling.variance: 'learned' needs network.variance: learned")
        if self.samples_three_heads:
            raise ValueError("sampling.variance: 'learned'; mixed models have learned none; allowed: posterior")
        return self

    @model_validator(mode="after")
    def guidance_has_its_labels(self) -> Self:
        """Guidance needs a model that has also learned without labels."""
        condition = self.network.condition
        if self.sampling.guidance is not None and condition.kind != "dropped_labels":
            raise ValueError(
                f"sampling.guidance: needs a model that has learned without labels too, not kind '{condition.kind}'; "
                "allowed: null, or network.condition.kind dropped_labels"
            )
        return self


class Scored(Sampled):
    """Samples are scored by FID."""

    extractor: Extractor
    evaluation: Evaluation

    @model_validator(mode="after")
    def samples_are_enough(self) -> Self:
        """FID needs a covariance of full rank."""
        evaluation, features = self.evaluation, self.extractor.features
        if evaluation.samples < features and not evaluation.allow_singular:
            raise ValueError(
                f"evaluation.samples: {evaluation.samples} is fewer than extractor.features {features}, which makes "
                "the covariance singular; raise it or set evaluation.allow_singular: true"
            )
        return self

    @model_validator(mode="after")
    def guidance_is_scored_without_labels(self) -> Self:
        """Features that were learned by labels see guidance by labels as quality."""
        if self.sampling.guidance is not None and self.extractor.kind == "classifier":
            raise ValueError(
                "sampling.guidance: cannot be scored by extractor.kind 'classifier', whose features know the labels; "
                "allowed: null, or inception or dinov2"
            )
        return self


#: Models that stages of the pipeline make under names of their own, and beginnings of such names.
TAKEN, TAKEN_BEGINNINGS = ("base", "slot", "mixed", "expert"), ("slot_", "experts_", "group_")
EXPERTS = ("experts_unpruned", "experts_pruned")


class ExpertParams(Scored):
    """A base, experts for groups of timesteps and further recipes, in pixels or latents."""

    scored_models: Annotated[
        tuple[Name, ...],
        Field(description="models and sets of experts that are scored, each an instance; the base among them"),
    ]
    profile: Profile
    profiled_models: Annotated[
        tuple[Name, ...],
        Field(description="models and sets of experts that are profiled, each an instance; the base among them"),
    ]
    groups: Groups
    pruning: Annotated[
        dict[Name, Pruning], Field(description="ways of pruning by name; `expert` makes the pruned experts")
    ]
    slots: Slots
    finetune_recipes: Annotated[
        tuple[Name, ...], Field(min_length=1, description="recipes trained on from the base, each an instance")
    ]

    @property
    def roles(self) -> dict[str, Role]:
        return super().roles | dict.fromkeys(self.finetune_recipes, CONTINUED)

    @property
    def trained_models(self) -> tuple[str, ...]:
        """A further recipe's model has its name."""
        return (*super().trained_models, *self.finetune_recipes)

    @property
    def expert_sets(self) -> tuple[str, ...]:
        """The experts of all groups, with and without pruning."""
        return EXPERTS

    @property
    def samples_three_heads(self) -> bool:
        """A recipe's model has its name."""
        return any(name in self.roles and self.roles[name].mixed for name in self.scored_models)

    @property
    def profiled_images(self) -> int:
        """Draws per timestep, of training and of held-out images."""
        return self.profile.images

    @property
    def has_floor(self) -> bool:
        """True where the optimal-denoiser loss is profiled too."""
        return self.profile.floor != "none"

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Limit of the group with the smallest model."""
        groups = foreseen_groups(self.groups.planned, noise_schedule(self.schedule))
        return {"groups.min_ratio": min(group.limit_ratio for group in groups)}

    @model_validator(mode="after")
    def scored_models_are_trained(self) -> Self:
        check_models("scored_models", self.scored_models, (*self.trained_models, *self.expert_sets))
        return self

    @model_validator(mode="after")
    def profiled_models_are_trained(self) -> Self:
        check_models("profiled_models", self.profiled_models, (*self.trained_models, *self.expert_sets))
        return self

    @model_validator(mode="after")
    def floor_is_known(self) -> Self:
        """The best denoiser is known in closed form where a network sees x_t alone."""
        condition = self.network.condition
        if condition.kind != "none" and self.has_floor:
            raise ValueError(
                f"profile.floor: {self.profile.floor} would be the least loss of a network that sees x_t alone; "
                f"allowed for network.condition.kind {condition.kind}: none"
            )
        return self

    @model_validator(mode="after")
    def prunings_are_there(self) -> Self:
        """The experts' stage finds its own way of pruning."""
        if "expert" not in self.pruning:
            raise ValueError("pruning: 'expert' is missing; it makes the pruned experts")
        return self

    @model_validator(mode="after")
    def timesteps_can_be_grouped(self) -> Self:
        """Groups that cannot be made are refused before the base is trained, except those by its measured loss."""
        try:
            foreseen_groups(self.groups.planned, noise_schedule(self.schedule))
        except UserError as error:
            raise ValueError(f"groups: {error}") from None
        if self.groups.needs_excess and not self.has_floor:
            raise ValueError(
                "groups.kind: 'excess_loss' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self

    @model_validator(mode="after")
    def experts_can_be_drawn_for(self) -> Self:
        """Inside every group, where groups are known before the base has been trained."""
        schedule, recipe = noise_schedule(self.schedule), self.recipes.get("expert")
        if recipe is None or self.groups.needs_excess:
            return self
        for group in planned_groups(self.groups.planned, schedule):
            try:
                sampler_inside(recipe.sampler, group.range, schedule)
            except UserError as error:
                raise ValueError(f"recipes.expert.{error}") from None
        return self

    @model_validator(mode="after")
    def slots_can_be_made(self) -> Self:
        """At most one slot a timestep, and an excess only over the optimal-denoiser loss."""
        count, timesteps = self.slots.count, self.schedule.timesteps
        if count > timesteps:
            raise ValueError(f"slots.count: {count} ranges of {timesteps} timesteps; at most schedule.timesteps")
        if self.slots.loss == "excess" and not self.has_floor:
            raise ValueError(
                "slots.loss: 'excess' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self

    @field_validator("finetune_recipes")
    @classmethod
    def recipes_have_names_of_their_own(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """A further recipe's name becomes a model's and a folder's."""
        for name in names:
            if name in TAKEN or name.startswith(TAKEN_BEGINNINGS):
                raise ValueError(f"'{name}' is the name of another stage's model")
        if len(set(names)) < len(names):
            raise ValueError(f"{list(names)} names a recipe twice")
        return names


class Params(ExpertParams):
    """params.yaml of the pipeline: every section."""

    spaced_by_profile: ClassVar[bool] = True  # the base is profiled before anything is sampled

    @property
    def roles(self) -> dict[str, Role]:
        own = {"base": FRESH, "slot": INSIDE_A_RANGE, "mixed": THREE_HEADS, "expert": PRUNED}
        return own | super().roles

    @property
    def trained_models(self) -> tuple[str, ...]:
        """Models by the names of their folders."""
        slots = (f"slot_{slot}" for slot in self.slots.finetune)
        return ("base", "mixed", *self.finetune_recipes, *slots)

    @model_validator(mode="after")
    def slots_are_finetuned(self) -> Self:
        """The pipeline has a stage for it."""
        if not self.slots.finetune:
            raise ValueError("slots.finetune: []; the pipeline trains on inside one slot or more")
        return self
