"""The whole of a params.yaml, the pipeline's or a study's: all sections, and the combinations that span them.

Only the gate stage `check_params` and the tools import this module. A stage reads its own
sections alone, so that a new key elsewhere does not make its results stale.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, NonNegativeInt, model_validator

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.autoencoder import Autoencoder, Trained
from unequal.settings.consistency import Consistency, with_width
from unequal.settings.contribution import Contribution
from unequal.settings.data import Data
from unequal.settings.evaluation import Evaluation, Extractor, Sampling
from unequal.settings.gradients import Gradients
from unequal.settings.grid import Grid, parsed_batch
from unequal.settings.groups import Groups
from unequal.settings.interference import Interference
from unequal.settings.merging import Merging
from unequal.settings.network import Network
from unequal.settings.plan import Experts, Plan, check_plan
from unequal.settings.predictions import Predictions
from unequal.settings.profile import Profile
from unequal.settings.pruning import Pruning
from unequal.settings.recipe import LossSecondMoment, Recipe, needs_base
from unequal.settings.runtime import Runtime
from unequal.settings.schedule import Schedule
from unequal.settings.slots import Slots
from unequal.settings.small_batches import SmallBatches
from unequal.settings.strict import PARAMS, STUDIES, Strict, read_yaml, validate
from unequal.settings.time_to_quality import TimeToQuality
from unequal.settings.training import Training
from unequal.timesteps.partition import check_groups, timestep_groups

#: Recipes that stages of their own run; every further one stands in `further_recipes`.
STAGE_RECIPES = ("base", "slot", "mixed", "expert")
EXPERTS = ("experts_unpruned", "experts_pruned")
#: The unpruned experts as one model.
MERGED = "merged"


FURTHER = Field(min_length=1, description="recipes trained on from the base, each an instance")
PROFILED = Field(description="models whose losses are profiled, each an instance")
PRUNING = Field(description="ways of pruning by name; `expert` makes the pruned experts")
PLANS = Field(description="ways of training models for groups of timesteps, each under a name like study/plan")
VARIANTS = Field(description="models and sets of experts that are scored, each an instance")


class StudyParams(Strict):
    """params.yaml of a study: the core, and the sections that its stages read."""

    seed: NonNegativeInt
    runtime: Runtime
    data: Data
    autoencoder: Autoencoder | None = None
    schedule: Schedule
    network: Network
    training: Training
    recipes: dict[str, Recipe]
    further_recipes: Annotated[tuple[str, ...], FURTHER] = ()
    profile: Profile | None = None
    profiled_models: Annotated[tuple[str, ...], PROFILED] = ()
    slots: Slots | None = None
    groups: Groups | None = None
    merging: Merging | None = None
    pruning: Annotated[dict[str, Pruning], PRUNING] = Field(default_factory=dict)
    extractor: Extractor | None = None
    sampling: Sampling | None = None
    evaluation: Evaluation | None = None
    variants: Annotated[tuple[str, ...], VARIANTS] = ()
    grid: Grid | None = None
    gradients: Gradients | None = None
    small_batches: SmallBatches | None = None
    interference: Interference | None = None
    time_to_quality: TimeToQuality | None = None
    predictions: Predictions | None = None
    contribution: Contribution | None = None
    consistency: Consistency | None = None
    plans: Annotated[dict[str, Plan], PLANS] = Field(default_factory=dict)
    experts: Experts | None = None

    @model_validator(mode="after")
    def recipes_have_names_of_their_own(self) -> Self:
        """A further recipe's name becomes a model's and a folder's."""
        for name in self.further_recipes:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ValueError(f"further_recipes: '{name}' is no name; allowed: small letters, digits and _")
            if name in (*STAGE_RECIPES, MERGED) or name.startswith(("slot_", "experts_", "group_")):
                raise ValueError(f"further_recipes: '{name}' is the name of another stage's model")
        if len(set(self.further_recipes)) < len(self.further_recipes):
            raise ValueError(f"further_recipes: {list(self.further_recipes)} names a recipe twice")
        return self

    @model_validator(mode="after")
    def recipes_are_there(self) -> Self:
        """Stages find their recipes, and recipes their stages."""
        needed, known = self.needed_recipes, {*STAGE_RECIPES, *self.needed_recipes}
        for name in needed:
            if name not in self.recipes:
                raise ValueError(f"recipes: '{name}' is missing; needed: {', '.join(needed)}")
        for name in self.recipes:
            if name not in known:
                raise ValueError(f"further_recipes: does not list recipe '{name}'; add it there or delete it")
        return self

    @property
    def needed_recipes(self) -> tuple[str, ...]:
        """Recipes that something in the file names."""
        replicated = ("base",) if self.consistency else ()
        return (*self.further_recipes, *self.grid_recipes, *self.slot_recipes, *replicated)

    @model_validator(mode="after")
    def prunings_are_there(self) -> Self:
        """A way of pruning has a name that can be a folder's, and stages find theirs."""
        for name in self.pruning:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ValueError(f"pruning: '{name}' is no name; allowed: small letters, digits and _")
        return self

    @property
    def grid_recipes(self) -> tuple[str, ...]:
        """Recipes that are trained with every seed of the grid."""
        single = self.grid.recipes if self.grid else ()
        return (*single, *(self.predictions.mixed if self.predictions else ()))

    @property
    def slot_recipes(self) -> tuple[str, ...]:
        """Recipes that train inside one slot, where there are several."""
        return self.interference.slot_recipes if self.interference else ()

    @model_validator(mode="after")
    def timesteps_can_be_grouped(self) -> Self:
        """Found out here, and not after the base has been trained, but for groups by its measured loss."""
        if self.groups is None:
            return self
        count, min_ratio, kind = len(self.groups.ids), self.groups.min_ratio, self.groups.kind
        try:
            schedule = NoiseSchedule.named(self.schedule.name, self.schedule.timesteps)
            check_groups(schedule, count, min_ratio)
            if kind != "excess_loss":
                timestep_groups(kind, schedule, count, min_ratio)
        except UserError as error:
            raise ValueError(f"groups: {error}") from None
        if kind == "excess_loss" and (self.profile is None or self.profile.floor == "none"):
            raise ValueError(
                "groups.kind: 'excess_loss' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self

    @model_validator(mode="after")
    def plans_can_be_carried_out(self) -> Self:
        """Every plan is asked for, and its groups, limits and recipe are sound, as far as that is known beforehand."""
        asked = self.experts.plans if self.experts else ()
        for name in asked:
            if name not in self.plans:
                raise ValueError(f"experts.plans: '{name}' is no plan; there is: {', '.join(self.plans)}")
        measured = self.profile is not None and self.profile.floor != "none"
        for name, plan in self.plans.items():
            if name not in asked:
                raise ValueError(f"experts.plans: does not list plan '{name}'; add it there or delete it")
            prediction = self.recipes["base"].prediction if "base" in self.recipes else None
            try:
                check_plan(name, plan, NoiseSchedule.named(self.schedule.name, self.schedule.timesteps), prediction)
            except UserError as error:
                raise ValueError(f"plans.{name}: {error}") from None
            if plan.groups.kind == "excess_loss" and not measured:
                raise ValueError(f"plans.{name}.groups.kind: 'excess_loss' needs a floor; allowed: profile.floor: all")
        return self

    @model_validator(mode="after")
    def recipes_fit_their_stages(self) -> Self:
        """A range goes with the stages that know one; heads with the model that has them."""
        mixed = ("mixed", *(self.predictions.mixed if self.predictions else ()))
        for name, recipe in self.recipes.items():
            ranged = name in (*self.slot_recipes, "slot", "expert")
            if ranged != (recipe.sampler.kind == "slot"):
                allowed = "only 'slot'" if ranged else "any but 'slot', which recipes slot and expert use"
                raise ValueError(f"recipes.{name}.sampler.kind: '{recipe.sampler.kind}'; allowed: {allowed}")
            if name in ("base", *mixed) and needs_base(recipe.sampler):
                raise ValueError(
                    f"recipes.{name}.sampler.kind: '{recipe.sampler.kind}' needs the base's profile; "
                    "recipes that start from nothing have none"
                )
            if (name in mixed) != (recipe.prediction == "mixed"):
                raise ValueError(
                    f"recipes.{name}.prediction: '{recipe.prediction}'; 'mixed' is for {', '.join(mixed)} alone"
                )
            continues = name in (*self.slot_recipes, "slot", "expert", *self.further_recipes)
            if continues and "base" in self.recipes and recipe.prediction != self.recipes["base"].prediction:
                raise ValueError(
                    f"recipes.{name}.prediction: '{recipe.prediction}'; it trains the base on, "
                    f"whose prediction is '{self.recipes['base'].prediction}'"
                )
        return self

    @model_validator(mode="after")
    def interference_can_be_told(self) -> Self:
        """There are slots to interfere, models to compare, and uniform timesteps to hold them against."""
        if self.interference is None:
            return self
        control = self.interference.control
        if self.slots is None or self.slots.count < 2:
            raise ValueError("interference: needs slots.count: 2 or more")
        if control not in self.further_recipes or self.recipes[control].sampler.kind != "uniform":
            raise ValueError(f"interference.control: '{control}' is no further recipe with sampler.kind: uniform")
        for name in self.further_recipes:
            if name not in self.profiled_models:
                raise ValueError(f"profiled_models: lacks '{name}', which interference compares with the base")
        return self

    @model_validator(mode="after")
    def models_exist(self) -> Self:
        """What is profiled and scored is also trained."""
        slots = self.slots.finetune if self.slots else ()
        merged = (MERGED,) if self.merging else ()
        models = ("base", "mixed", *self.further_recipes, *(f"slot_{slot}" for slot in slots), *merged)
        for field, names, allowed in (
            ("profiled_models", self.profiled_models, models),
            ("variants", self.variants, (*models, *EXPERTS)),
        ):
            for name in names:
                if name not in allowed:
                    raise ValueError(f"{field}: '{name}' is not trained; allowed: {', '.join(allowed)}")
            if names and ("base" not in names or len(set(names)) < len(names)):
                raise ValueError(f"{field}: {list(names)} must hold base, and no name twice")
        return self

    @model_validator(mode="after")
    def experts_can_be_merged(self) -> Self:
        """Where every group's weight is told, there are as many as groups."""
        weights = self.merging.weights if self.merging else "mean"
        groups = len(self.groups.ids) if self.groups else 0
        if self.merging and not groups:
            raise ValueError("merging: needs the section groups, whose experts are merged")
        if isinstance(weights, tuple) and len(weights) != groups:
            raise ValueError(f"merging.weights: {len(weights)} weights for {groups} groups; allowed: one for each")
        return self

    @model_validator(mode="after")
    def ranges_fit_the_schedule(self) -> Self:
        """No more ranges than timesteps."""
        timesteps = self.schedule.timesteps
        slots, groups = self.slots.count if self.slots else 0, len(self.groups.ids) if self.groups else 0
        for field, count in (("slots.count", slots), ("groups.ids", groups)):
            if count > timesteps:
                raise ValueError(f"{field}: {count} ranges of {timesteps} timesteps; at most schedule.timesteps")
        if self.slots and self.slots.loss == "excess" and self.profile and self.profile.floor == "none":
            raise ValueError(
                "slots.loss: 'excess' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        return self

    @model_validator(mode="after")
    def network_fits_the_images(self) -> Self:
        """The network halves what it sees, images or latents, and attends where it says."""
        size, factor = self.data.image_size, self.autoencoder.factor if self.autoencoder else 1
        if self.autoencoder and (size % factor or size < 2 * factor):
            halved = f"block_out_channels: halve images {factor.bit_length() - 1} times"
            which = halved if isinstance(self.autoencoder, Trained) else f"factor: {factor}"
            raise ValueError(
                f"autoencoder.{which}; data.image_size {size} is no multiple of {factor} with two latent pixels a side "
                "or more"
            )
        try:
            self.network.attends(size // factor)
        except ValueError as error:
            raise ValueError(f"latents {size // factor} pixels wide: {error}" if factor > 1 else error) from None
        self.network.enlarges(size)
        return self

    @model_validator(mode="after")
    def latents_are_no_pixels(self) -> Self:
        """What holds of pixels alone is switched off for latents."""
        if self.autoencoder is None:
            return self
        if self.sampling and self.sampling.clip:
            raise ValueError(
                "sampling.clip: true bounds pixels, and latents have no bounds; allowed for latents: false"
            )
        if self.training.horizontal_flips:
            raise ValueError(
                "training.horizontal_flips: true would mirror latents, which are not those of the mirrored image; "
                "allowed for latents: false"
            )
        if self.network.enlargement is not None or self.network.learned_variance:
            what = "task: super_resolution" if self.network.enlargement else "learned_variance: true"
            raise ValueError(f"network.{what}; models of latents generate, and their likelihood is not that of pixels")
        return self

    @model_validator(mode="after")
    def learned_variance_is_there(self) -> Self:
        """Only models that have learned a variance are sampled with it; three heads learn none."""
        if self.sampling is None or self.sampling.variance != "learned":
            return self
        if not self.network.learned_variance:
            raise ValueError("sampling.variance: 'learned' needs network.learned_variance: true")
        if "mixed" in self.variants or self.predictions:
            raise ValueError("sampling.variance: 'learned'; mixed models have learned none; allowed: posterior")
        return self

    @model_validator(mode="after")
    def warm_starts_know_the_whole_loss(self) -> Self:
        """A profile holds squared errors, and no terms of the variational bound."""
        for name, recipe in self.recipes.items():
            sampler = recipe.sampler
            if self.network.learned_variance and isinstance(sampler, LossSecondMoment) and sampler.warm_start:
                raise ValueError(
                    f"recipes.{name}.sampler.warm_start: the profile has losses of ε alone; allowed without "
                    "network.learned_variance, whose bound is learned from too"
                )
        return self

    @model_validator(mode="after")
    def contribution_is_of_super_resolution(self) -> Self:
        """Only there is one right answer, which may replace a prediction."""
        if self.contribution is None:
            return self
        self.contribution.fits(self.schedule.timesteps)
        if self.network.enlargement is None:
            raise ValueError("contribution: network.task is generation; allowed: super_resolution")
        return self

    @model_validator(mode="after")
    def floor_is_known(self) -> Self:
        """The best denoiser is known in closed form where a network sees x_t alone."""
        task = "super_resolution" if self.network.enlargement else "class-conditional networks"
        told = self.network.enlargement is not None or self.network.classes is not None
        if told and self.profile and self.profile.floor != "none":
            raise ValueError(
                f"profile.floor: {self.profile.floor} would be the least loss of a network that sees x_t alone; "
                f"allowed for {task}: none"
            )
        return self

    @model_validator(mode="after")
    def sampling_fits_the_schedule(self) -> Self:
        """Sampling asks for timesteps that there are."""
        timesteps, steps = self.schedule.timesteps, self.sampling.steps if self.sampling else 1
        if isinstance(steps, int) and steps > timesteps:
            raise ValueError(f"sampling.steps: {steps} steps of {timesteps} timesteps; at most schedule.timesteps")
        if isinstance(steps, tuple) and steps[0] >= timesteps:
            raise ValueError(f"sampling.steps: {steps[0]} reaches beyond the last timestep {timesteps - 1}")
        return self

    @model_validator(mode="after")
    def samples_are_enough(self) -> Self:
        """FID needs a covariance of full rank."""
        evaluation, extractor = self.evaluation, self.extractor
        if evaluation and extractor and evaluation.samples < extractor.features and not evaluation.allow_singular:
            raise ValueError(
                f"evaluation.samples: {evaluation.samples} is fewer than extractor.features "
                f"{extractor.features}, which makes the covariance singular; "
                "raise it or set evaluation.allow_singular: true"
            )
        return self

    @model_validator(mode="after")
    def baselines_are_trained(self) -> Self:
        """A recipe is compared with another of the grid, over as many images."""
        chosen = self.time_to_quality
        for field in ("baselines", "rivals") if chosen else ():
            for name, baseline in getattr(chosen, field).items():
                for one in (name, baseline):
                    if self.grid is None or one not in self.grid.recipes:
                        raise ValueError(f"time_to_quality.{field}: '{one}' is no recipe of the grid")
                if name == baseline or self.recipes[name].images != self.recipes[baseline].images:
                    raise ValueError(
                        f"time_to_quality.{field}: '{name}' and '{baseline}' must be two recipes with the same images"
                    )
        return self

    @model_validator(mode="after")
    def small_batches_have_a_grid(self) -> Self:
        """The baseline is one of the grid's recipes, trained at further batches; all see as many images."""
        if self.small_batches is None:
            return self
        if self.grid is None or self.gradients is None:
            raise ValueError("small_batches: needs the sections grid and gradients")
        for name in self.small_batches.baselines:
            if name not in self.grid.recipes:
                raise ValueError(f"small_batches.baselines: '{name}' is no recipe of the grid")
        for batch in self.small_batches.batches:
            if batch in self.grid.batches:
                raise ValueError(f"small_batches.batches: '{batch}' stands in grid.batches already")
        if len({self.recipes[name].images for name in self.grid.recipes}) > 1:
            raise ValueError("small_batches: recipes of the grid differ in images; they are compared at equal images")
        return self

    @model_validator(mode="after")
    def predictions_have_trials(self) -> Self:
        """Three heads are held against single predictions, from the same training seeds."""
        if self.predictions and (self.grid is None or len(self.grid.batches) != 1):
            raise ValueError("predictions: needs a grid of one batch, whose recipes it is held against")
        for name in self.grid.recipes if self.grid else ():
            if self.recipes[name].prediction == "mixed":
                raise ValueError(f"grid.recipes: '{name}' has three heads; those stand in predictions.mixed")
        return self

    @model_validator(mode="after")
    def batches_of_a_grid_can_be_trained(self) -> Self:
        """Found out here, and not at the first trial."""
        for batch in self.grid.batches if self.grid else ():
            size, parts = parsed_batch(batch)
            for name in self.grid_recipes:
                if size * parts > self.recipes[name].images:
                    raise ValueError(
                        f"grid.batches: '{batch}' is a batch of {size * parts}, recipe '{name}' sees "
                        f"{self.recipes[name].images} images in all"
                    )
        return self

    @model_validator(mode="after")
    def profiles_fill_histories(self) -> Self:
        """A sampler that begins warm needs as many losses of each timestep as it keeps."""
        for name, recipe in self.recipes.items():
            sampler = recipe.sampler
            if isinstance(sampler, LossSecondMoment) and sampler.warm_start:
                measured = self.profile.images if self.profile else 0
                if measured < sampler.history:
                    raise ValueError(
                        f"recipes.{name}.sampler.warm_start: the profile has {measured} losses of a timestep, the "
                        f"history takes {sampler.history}; raise profile.images"
                    )
        return self

    @model_validator(mode="after")
    def compared_samplers_are_built(self) -> Self:
        """Gradients are measured for samplers that a stage makes."""
        built = (*self.further_recipes, *(self.grid.recipes if self.grid else ()))
        for name in self.gradients.samplers if self.gradients else ():
            if name not in built:
                raise ValueError(f"gradients.samplers: no sampler is made of '{name}'; allowed: {', '.join(built)}")
        return self

    @model_validator(mode="after")
    def replicas_can_be_trained(self) -> Self:
        """Every width makes a network for the images, from fresh weights."""
        for width in self.consistency.widths if self.consistency else ():
            try:
                with_width(self.network, width).attends(self.data.image_size)
            except (UserError, ValueError) as error:
                raise ValueError(f"consistency.widths: {error}") from None
        if self.consistency and self.network.enlargement:
            raise ValueError("network.task: super_resolution; replicas make pictures of noise alone: generation")
        if self.consistency and self.network.classes:
            raise ValueError(f"network.classes: {self.network.classes}; replicas make pictures of noise alone: null")
        if self.consistency and self.network.pretrained:
            raise ValueError(
                f"network.pretrained: '{self.network.pretrained}'; replicas start from fresh weights: null"
            )
        return self

    @model_validator(mode="after")
    def replicas_can_be_compared(self) -> Self:
        """Noise alone decides what a replica samples."""
        if self.consistency is None:
            return self
        if self.sampling is None or self.sampling.eta:
            has = "missing" if self.sampling is None else f"{self.sampling.eta}"
            raise ValueError(f"sampling.eta: {has}; consistency compares pictures of one noise, and needs 0")
        timesteps, last = self.consistency.comparison.timesteps, self.schedule.timesteps - 1
        if timesteps[-1] > last:
            raise ValueError(
                f"consistency.comparison.timesteps: {timesteps[-1]} reaches beyond the last timestep {last}"
            )
        return self


class Params(StudyParams):
    """params.yaml of the pipeline: every section."""

    further_recipes: Annotated[tuple[str, ...], FURTHER]
    profile: Profile
    profiled_models: Annotated[tuple[str, ...], PROFILED]
    slots: Slots
    groups: Groups
    merging: Merging
    pruning: Annotated[dict[str, Pruning], PRUNING]
    extractor: Extractor
    sampling: Sampling
    evaluation: Evaluation
    variants: Annotated[tuple[str, ...], VARIANTS]

    @property
    def needed_recipes(self) -> tuple[str, ...]:
        """Recipes that the pipeline's stages are named for, and the further ones."""
        return (*STAGE_RECIPES, *super().needed_recipes)

    @model_validator(mode="after")
    def slots_are_finetuned(self) -> Self:
        """The pipeline has a stage for it."""
        if not self.slots.finetune:
            raise ValueError("slots.finetune: []; the pipeline trains on inside one slot or more")
        return self

    @model_validator(mode="after")
    def experts_are_pruned(self) -> Self:
        """The way of pruning that their stage reads."""
        if "expert" not in self.pruning:
            raise ValueError("pruning: 'expert' is missing; it makes the pruned experts")
        return self


def read_params(path: Path = PARAMS) -> StudyParams:
    """Read and check a whole params file; one in a study's folder may leave sections out. Raises UserError."""
    study = path.absolute().parents[1].name == STUDIES
    return read_study_params(path) if study else read_pipeline_params(path)


def read_study_params(path: Path) -> StudyParams:
    """Read and check a params file that may leave sections out, in a study's folder or not. Raises UserError."""
    return validate(StudyParams, read_yaml(path), path)


def read_pipeline_params(path: Path = PARAMS) -> Params:
    """Read and check the pipeline's params file, or a preset of it. Raises UserError."""
    document = read_yaml(path)
    if document.get("autoencoder") is not None:
        # Said first: files for latents leave sections out besides.
        raise UserError(f"{path}: autoencoder: the pipeline's models see pixels; studies/latent is a graph for latents")
    return validate(Params, document, path)


def json_schema(model: type[StudyParams] = Params) -> dict[str, Any]:
    """JSON schema of a params.yaml, by which editors complete and check it."""
    return model.model_json_schema() | {"title": "params.yaml of unequal"}
