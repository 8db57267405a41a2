"""How models are measured: `profile`, the loss of every timestep, and `slots` by it; `sampling`, and scores by FID."""

from itertools import pairwise
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from unequal.diffusion.solvers import network_calls
from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Budget, DrawCount, Outside, Seed, Width

#: How a number of steps is spread: over timesteps, over log-SNR, as EDM does, or by the base's measured losses.
Spacing = Literal["uniform", "quadratic", "log_snr", "edm", "profile", "rescaled_profile"]
#: Spacings by the base's measured losses.
BY_PROFILE = ("profile", "rescaled_profile")
#: Precision of networks that are only asked; `fp32` is left out of records.
AnswerPrecision = Annotated[
    Literal["auto", "fp32", "bf16"],
    Field(
        exclude_if=lambda precision: precision == "fp32",
        description="of the networks' layers; bf16 is faster on GPUs and changes figures a little; auto: bf16 on a GPU "
        "that has it, else fp32",
    ),
]
#: Extractors that are trained on the data set itself.
TRAINED_HERE = ("classifier", "rotations")


class SampledFloor(Strict):
    """The optimal-denoiser loss of a large set, estimated at each timestep from a sample of it (cDOL, 2506.13763)."""

    sampled: DrawCount = Field(ge=2, description="images of the sample, another one for each timestep")

    def __str__(self) -> str:
        return f"sampled {self.sampled}"


class Profile(Strict):
    """Draws a timestep, and the images of the optimal denoiser."""

    images: DrawCount = Field(ge=2, description="images a timestep and split (two or more: standard errors)")
    batch_size: BatchSize
    floor: Literal["all", "none"] | DrawCount | SampledFloor = Field(
        description="of the best denoiser of all training images, of none, or of the first n, then profiled alone; or "
        "of all, estimated from samples"
    )
    precision: AnswerPrecision = "fp32"

    def calls(self, timesteps: int) -> int:
        """Calls of a network for the profile of a split."""
        return -(-timesteps * self.images // self.batch_size)


class Slots(Strict):
    """Number of slots, the loss that they divide, and those that are fine-tuned."""

    count: PositiveInt
    loss: Literal["total", "excess"] = Field(description="of the profile, or its excess over the optimal-denoiser loss")
    finetune: tuple[PositiveInt, ...] = Field(default=(), description="slots counted from 1, as the paper does")

    @model_validator(mode="after")
    def chosen_slots_exist(self) -> Self:
        """Chosen slots lie in 1 … count, each once."""
        for slot in self.finetune:
            if slot > self.count:
                raise ValueError(f"finetune: {slot} is no slot; allowed: 1 … {self.count}")
        if len(set(self.finetune)) < len(self.finetune):
            raise ValueError(f"finetune: {list(self.finetune)} names a slot twice")
        return self


class Extractor(Strict):
    """Features that FID compares: of a small network trained here, on labels or rotations, or of a large one.

    `rotations` needs no labels: the network learns by how many quarter turns a training image is rotated (1803.07728).
    """

    kind: Literal["classifier", "rotations", "inception", "dinov2"]
    weights: Outside | None = Field(description="inception: file, null downloads it; dinov2: folder of transformers")
    features: Width = Field(description="length of the feature vector; 2048 of inception, hidden_size of dinov2")
    images: Budget = Field(description="classifier and rotations: images seen in training")
    batch_size: BatchSize
    lr: PositiveFloat

    @model_validator(mode="after")
    def each_kind_has_what_it_needs(self) -> Self:
        """Large networks come from files, of which Inception's alone is downloaded; small ones train for a step."""
        if self.kind == "inception" and self.features != 2048:  # of four sizes of pool features FID takes the last
            raise ValueError(f"features: {self.features}; inception has 2048")
        if self.kind == "dinov2" and self.weights is None:
            raise ValueError("weights: null; dinov2 needs a folder with config.json and model.safetensors")
        if self.kind in TRAINED_HERE and self.batch_size > self.images:
            raise ValueError(f"batch_size: {self.batch_size}; the {self.kind} network sees {self.images} images in all")
        if self.kind in TRAINED_HERE and self.weights is not None:
            raise ValueError(f"weights: {self.kind} is trained on the data; allowed: null, or another kind")
        return self


class Guidance(Strict):
    """Classifier-free guidance: answers lead away from those without a label, to ∅ + w·(y − ∅)."""

    scale: PositiveFloat = Field(description="w; 1: no guidance, at twice the cost")
    channels: PositiveInt | None = Field(3, description="first channels of a prediction that are guided; null: all")


class Sampling(Strict):
    """From the same noise for every variant."""

    steps: PositiveInt | tuple[NonNegativeInt, ...] = Field(description="their number, or falling timesteps")
    spacing: Spacing | None = Field(None, description="of a number of steps over T; null: the timesteps are listed")
    solver: Literal["ddim", "heun", "dpm_solver_2m"] = Field(
        default="ddim",
        exclude_if=lambda solver: solver == "ddim",  # what was recorded before there were others stays as it is
        description="heun asks for two predictions a step, DPM-Solver++ (2M) goes by the one before",
    )
    eta: float = Field(ge=0, le=1, description="0: deterministic DDIM; 1: as noisy as DDPM")
    variance: Literal["posterior", "learned"] = Field("posterior", description="of the noise at eta 1: β̃, or learned")
    clip: bool = Field(description="keep predicted images within [-1, 1] at each step")
    guidance: Guidance | None = Field(
        default=None,
        exclude_if=lambda guidance: guidance is None,
        description="of a model of network.condition.kind dropped_labels; null: none",
    )
    batch_size: BatchSize
    precision: AnswerPrecision = "fp32"

    @property
    def predictions(self) -> int:
        """Number of predictions that the solver asks for, from noise to image; guidance takes two passes for each."""
        return len(network_calls(self.solver, range(self.steps) if isinstance(self.steps, int) else self.steps))

    def calls(self, images: int) -> int:
        """Calls of a network for so many images."""
        return self.predictions * -(-images // self.batch_size)

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """Listed steps fall, a number of steps is spread, and DDIM alone adds noise, a learned one at eta 1."""
        listed = self.steps if isinstance(self.steps, tuple) else (1, 0)
        if not listed or any(after >= before for before, after in pairwise(listed)):
            raise ValueError(f"steps: {list(listed)} must fall strictly, and hold one timestep at least")
        if isinstance(self.steps, int) and self.spacing is None:
            raise ValueError(f"spacing: needed by a number of steps; allowed: {', '.join(get_args(Spacing))}")
        if isinstance(self.steps, tuple) and self.spacing is not None:
            raise ValueError(f"spacing: '{self.spacing}' has no meaning for listed steps; allowed: null")
        if self.solver != "ddim" and self.eta:
            raise ValueError(f"eta: {self.eta:g} adds noise, which solver '{self.solver}' does not; allowed: 0.0")
        if self.variance == "learned" and self.eta != 1:
            raise ValueError(f"variance: 'learned' is that of eta 1, not of eta {self.eta:g}")
        return self


class Evaluation(Strict):
    """Samples and seeds of a score."""

    samples: int = Field(ge=2, le=10**7, description="images a seed")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="seeds of the noise; spread is over them")
    against: Literal["train", "holdout"] = Field("train", description="real images that samples are compared with")
    kid_subset: int = Field(ge=2, description="images a subset of KID; at most `samples`")
    neighbourhood: int = Field(3, ge=1, description="of precision and recall: balls reach to the n-th neighbour")
    allow_singular: bool = Field(description="score fewer samples than features all the same, and say so")

    @property
    def images(self) -> int:
        """Samples of all seeds."""
        return self.samples * len(self.seeds)

    @model_validator(mode="after")
    def samples_suffice(self) -> Self:
        """KID draws its subsets without replacement, and a ball's radius is the distance to another sample."""
        if self.kid_subset > self.samples:
            raise ValueError(f"kid_subset: {self.kid_subset} exceeds samples {self.samples}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: {list(self.seeds)} names a seed twice")
        if self.neighbourhood >= self.samples:
            raise ValueError(f"neighbourhood: {self.neighbourhood} neighbours among {self.samples} samples")
        return self
