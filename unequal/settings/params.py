"""The whole of the pipeline's params.yaml, from sections that an experiment's file may have too.

The gate stage `check_params` and the tools read the whole. A stage reads its own sections alone, so that a new key
elsewhere does not make its results stale.
"""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from pydantic import Field, field_validator

from unequal.diffusion.schedule import noise_schedule
from unequal.settings.core import CONTINUED, FRESH, INSIDE_A_RANGE, PRUNED, THREE_HEADS, Core, Role, refusal
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

    def checks(self) -> Iterator[str]:
        yield from super().checks()
        sampling, timesteps, steps = self.sampling, self.schedule.timesteps, self.sampling.steps
        if isinstance(steps, int) and steps > timesteps:
            yield f"sampling.steps: {steps} steps of {timesteps} timesteps; at most schedule.timesteps"
        if isinstance(steps, tuple) and steps[0] >= timesteps:
            yield f"sampling.steps: {steps[0]} reaches beyond the last timestep {timesteps - 1}"
        if sampling.spacing in BY_PROFILE and not self.spaced_by_profile:
            yield (
                f"sampling.spacing: '{sampling.spacing}'; no loss profile is at hand where this file's models are "
                "sampled"
            )
        if sampling.variance == "learned" and self.network.variance != "learned":
            yield "sampling.variance: 'learned' needs network.variance: learned"
        elif sampling.variance == "learned" and self.samples_three_heads:
            yield "sampling.variance: 'learned'; mixed models have learned none; allowed: posterior"
        if sampling.guidance is not None and self.network.condition.kind != "dropped_labels":
            yield (
                "sampling.guidance: needs a model that has learned without labels too, not kind "
                f"'{self.network.condition.kind}'; allowed: null, or network.condition.kind dropped_labels"
            )


class Scored(Sampled):
    """Samples are scored by FID."""

    extractor: Extractor
    evaluation: Evaluation

    def checks(self) -> Iterator[str]:
        yield from super().checks()
        evaluation, features = self.evaluation, self.extractor.features
        if evaluation.samples < features and not evaluation.allow_singular:
            yield (
                f"evaluation.samples: {evaluation.samples} is fewer than extractor.features {features}, which makes "
                "the covariance singular; raise it or set evaluation.allow_singular: true"
            )
        # Features that were learned by labels take guidance by labels for quality.
        if self.sampling.guidance is not None and self.extractor.kind == "classifier":
            yield (
                "sampling.guidance: cannot be scored by extractor.kind 'classifier', whose features know the labels; "
                "allowed: null, or inception or dinov2"
            )


#: Models that stages of the pipeline make under names of their own, and beginnings of such names.
TAKEN, TAKEN_BEGINNINGS = ("base", "slot", "mixed", "expert"), ("slot_", "experts_", "group_")
#: The experts of all groups, which are profiled and sampled as one model is.
EXPERTS = ("experts_unpruned", "experts_pruned")


class ExpertParams(Scored):
    """A base, experts for groups of timesteps and further recipes, in pixels or latents."""

    scored_models: tuple[Name, ...] = Field(description="models and sets of experts, each an instance; base among them")
    profile: Profile
    profiled_models: tuple[Name, ...] = Field(description="likewise; their losses are measured")
    groups: Groups
    pruning: dict[Name, Pruning] = Field(description="ways of pruning; `expert` makes the pruned experts")
    slots: Slots
    finetune_recipes: tuple[Name, ...] = Field(min_length=1, description="that train the base further")

    @property
    def roles(self) -> dict[str, Role]:
        return super().roles | dict.fromkeys(self.finetune_recipes, CONTINUED)

    @property
    def trained_models(self) -> tuple[str, ...]:
        """A further recipe's model has its name."""
        return (*super().trained_models, *self.finetune_recipes)

    @property
    def samples_three_heads(self) -> bool:
        """A recipe's model has its name."""
        return any(name in self.roles and self.roles[name].mixed for name in self.scored_models)

    @property
    def profiled_images(self) -> int:
        """Draws per timestep, of training and of held-out images."""
        return self.profile.images

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Limit of the group with the smallest model."""
        groups = foreseen_groups(self.groups.planned, noise_schedule(self.schedule))
        return {"groups.min_ratio": min(group.limit_ratio for group in groups)}

    def checks(self) -> Iterator[str]:
        yield from super().checks()
        for field in ("scored_models", "profiled_models"):
            names, allowed = getattr(self, field), (*self.trained_models, *EXPERTS)
            for name in names:
                if name not in allowed:
                    yield f"{field}: '{name}' is not trained; allowed: {', '.join(allowed)}"
            if "base" not in names or len(set(names)) < len(names):
                yield f"{field}: {list(names)} must hold base, and no name twice"
        if "expert" not in self.pruning:
            yield "pruning: 'expert' is missing; it makes the pruned experts"
        # The best denoiser is known in closed form where a network sees x_t alone.
        kind, floor = self.network.condition.kind, self.profile.floor
        if kind != "none" and floor != "none":
            yield (
                f"profile.floor: {floor} would be the least loss of a network that sees x_t alone; "
                f"allowed for network.condition.kind {kind}: none"
            )
        for key, chosen in (("groups.kind", self.groups.kind), ("slots.loss", self.slots.loss)):
            if chosen in ("excess_loss", "excess") and floor == "none":
                yield f"{key}: '{chosen}' needs a floor; allowed for profile.floor: all, or a number of images"
        count, timesteps = self.slots.count, self.schedule.timesteps
        if count > timesteps:
            yield f"slots.count: {count} ranges of {timesteps} timesteps; at most schedule.timesteps"
        yield from self.check_groups()

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

    def check_groups(self) -> Iterator[str]:
        """Yield where groups cannot be made or drawn from, as far as that is known before the base is trained."""
        schedule, expert = self.tables, self.recipes.get("expert")
        if schedule is None:
            return
        if refused := list(refusal(partial(foreseen_groups, self.groups.planned, schedule), "groups: ")):
            yield from refused
        elif expert is not None and expert.sampler.density == "slot" and not self.groups.needs_excess:
            for group in planned_groups(self.groups.planned, schedule):
                yield from refusal(partial(sampler_inside, expert.sampler, group.range, schedule), "recipes.expert.")


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

    def checks(self) -> Iterator[str]:
        yield from super().checks()
        if not self.slots.finetune:
            yield "slots.finetune: []; the pipeline trains on inside one slot or more"
