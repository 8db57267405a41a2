"""How much memory a stage takes at its peak, counted from the settings: nothing is built and nothing is measured.

Counted are weights and what belongs to them, what autograd keeps of a batch, the features that are compared, and the
images that the floor is of. Images that are mapped from disk are not: where memory is short the system drops them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from math import ceil
from pathlib import Path

from unequal.data.prepared import FACTS, Facts
from unequal.diffusion.predictions import ModelPrediction
from unequal.errors import UserError
from unequal.evaluation.sets import BATCH, TILE
from unequal.files import read_json
from unequal.models.backbones.counted import size_of
from unequal.models.backbones.size import Size
from unequal.models.spec import ModelSpec
from unequal.pruning.target import PIXELS_AT_ONCE
from unequal.settings.average import PowerAverage
from unequal.settings.evaluation import Evaluation, Extractor, Sampling
from unequal.settings.profile import Profile
from unequal.settings.strict import PARAMS, validate
from unequal.timesteps.clusters import FOLDS
from unequal.tools.sections import Uses, seen
from unequal.training.averaging import KEPT_WIDTHS

#: Bytes of a value; a network's are taken for float32, of which bf16 keeps less.
FLOAT, DOUBLE = 4, 8
#: Bytes of a process that has imported the libraries: on a CPU, and with CUDA's.
PROCESS, PROCESS_WITH_CUDA = 1.1e9, 3.5e9
#: A job of a cluster holds Snakemake twice, which has read the graph: it starts a step of the job, which starts the
#: stage.
SNAKEMAKE_IN_A_JOB = 2 * 0.9e9
#: What is counted, times this: allocators lose some, and convolutions lay their inputs out anew.
MARGIN = 1.3
#: Copies of the weights in training: themselves, gradients, average, two moments, what the optimizer has in hand.
TRAINED_COPIES = 6
#: Of a resumable state in host memory: weights, average and two moments, and the bytes of their file.
STATE_COPIES = 8
#: In merging: base, expert, difference, sum, and what they are written from.
MERGED_COPIES = 8
#: In pruning: the network, a candidate with gradients and moments, and the ranking.
PRUNED_COPIES = 6
#: x0, ε, x_t, the answer, a prediction and a product, of a batch.
IMAGES_IN_HAND = 6
#: Bytes of Inception and of a batch of 64 images on the way through it.
INCEPTION = 2.0e9
#: Of DINOv2: blocks of the largest one, of 12·features² weights each; tokens of an image, and vectors of each that are
#: in hand; values of an image as it is seen, which is in hand four times.
DINOV2_BLOCKS, DINOV2_TOKENS, DINOV2_VALUES, DINOV2_IMAGE = 40, 1 + 16**2, 12, 4 * 3 * 224**2
#: Values of a pixel that the classifier, and about as many that an autoencoder, has in hand.
CLASSIFIER_VALUES, AUTOENCODER_VALUES = 160, 512
#: Images where it is known without the data how many there are (of patches no fewer), and what is assumed otherwise.
IMAGES, MANY_IMAGES = {"digits": 1_797, "patches": 35_000, "cifar10": 50_000}, 100_000
#: Programs that hold next to nothing, by the last part of their module's name.
LIGHT = ("check_params", "prepare_data", "compute_slots", "build_sampler", "group_timesteps", "report")


@dataclass(frozen=True)
class Footprint:
    """Bytes at the peak of a process: what is in host memory in any case, and what is on the device."""

    host: float = 0.0
    device: float = 0.0

    def __or__(self, other: "Footprint") -> "Footprint":
        """What suffices for either."""
        return Footprint(max(self.host, other.host), max(self.device, other.device))

    def host_bytes(self, has_gpu: bool) -> float:
        """Host memory to ask for; without a GPU the device is there too."""
        return PROCESS_WITH_CUDA + MARGIN * self.host if has_gpu else PROCESS + MARGIN * (self.host + self.device)

    @property
    def gpu_bytes(self) -> float:
        """Memory of a GPU that it takes, beside CUDA's own."""
        return MARGIN * self.device


class Footprints:
    """Of the stages of a params file.

    Args:
        uses: its sections.
        images: of the data set, where that is prepared.
    """

    def __init__(self, uses: Uses, images: int | None = None) -> None:
        self.uses = uses
        self.images = images or IMAGES.get(uses.data.source, MANY_IMAGES)

    @classmethod
    def read(cls, folder: Path) -> "Footprints":
        """Of the params.yaml in a folder, with what is prepared there already. Raises UserError."""
        return cls(Uses.read(folder / PARAMS), prepared_images(folder / "artifacts/data" / FACTS))

    def megabytes(self, command: str, has_gpu: bool, on_cluster: bool) -> int:
        """Host memory to ask for, for all processes of `python -m package.program …`, in whole hundreds."""
        module = command.partition(" -m ")[2].split()[0]
        stage = self.of(module.rpartition(".")[2]).host_bytes(has_gpu)
        whole = (self.uses.runtime.processes or 1) * stage + (SNAKEMAKE_IN_A_JOB if on_cluster else 0)
        return 100 * ceil(whole / 1e8)

    def of(self, program: str) -> Footprint:
        """Of a stage, by the last part of its program's name.

        One that is not known here, a study's, may do anything that the settings speak of.
        """
        if program in LIGHT:
            return Footprint()
        one = self.kinds.get(program)
        return one() if one is not None else self.most()

    def most(self) -> Footprint:
        """What takes most of all that the settings speak of."""
        return reduce(Footprint.__or__, (kind() for kind in self.kinds.values()), self.encoded())

    @cached_property
    def kinds(self) -> dict[str, Callable[[], Footprint]]:
        """Programs whose sections are there → what counts them."""
        uses = self.uses
        found: dict[str, Callable[[], Footprint]] = {
            "train_base": lambda: self.trained(self.base),
            "train_mixed": lambda: self.trained(self.mixed),
            "train_recipe": lambda: self.trained(self.base),
            "finetune_slots": lambda: self.trained(self.base),
            "finetune_groups": lambda: self.trained(self.base),
            "merge_experts": lambda: Footprint(host=MERGED_COPIES * weights(self.base)),
        }
        if (profile := uses.profile) is not None:
            found["profile_loss"] = partial(self.profiled, profile)
            found["profile_floor"] = partial(self.floor, profile)
        if uses.pruning is not None:
            found["prune"] = self.pruned
        if (extractor := uses.extractor) is not None and (evaluation := uses.evaluation) is not None:
            found["build_extractor"] = partial(self.built, extractor)
            found["evaluate_reference"] = scored = partial(self.scored, extractor, evaluation)
            if (sampling := uses.sampling) is not None:
                found["evaluate_fid"] = lambda: self.sampled(sampling) | scored()
        return found

    @cached_property
    def base(self) -> Size:
        """Of the base's network."""
        return self.size("epsilon")

    @cached_property
    def mixed(self) -> Size:
        """Of a network with three heads."""
        return self.size("mixed")

    def size(self, prediction: ModelPrediction) -> Size:
        """Of a network that predicts so."""
        space = seen(self.uses)
        spec = ModelSpec.of(self.uses.network, self.uses.schedule, prediction, space)
        return size_of(self.uses.network, spec)

    def values(self) -> int:
        """Of what the network sees of an image."""
        channels, height, width = seen(self.uses).shape
        return channels * height * width

    def trained(self, size: Size) -> Footprint:
        """A training: weights and their kin, of clusters of timesteps their gradients, and one part of a batch."""
        training = self.uses.training
        part = -(-training.batch_size // training.gradient_accumulation)
        batch = FLOAT * part * (size.kept + size.passing + IMAGES_IN_HAND * self.values())
        # Averages of further widths: in the training, in its state, and in that state's file.
        recipes = (self.uses.recipes or {}).values()
        averages = [training.average, *(one.average for one in recipes)]
        further = len(KEPT_WIDTHS) if any(isinstance(one, PowerAverage) and one.keep for one in averages) else 0
        gradients = max((one.conflicts.gradients for one in recipes if one.conflicts is not None), default=0)
        measured = [one.gradients for one in recipes if one.gradients is not None]
        vectors = max((one.cells * FOLDS for one in measured), default=0)
        host, device = max(STATE_COPIES + 2 * further, vectors), TRAINED_COPIES + further + gradients
        return Footprint(host * weights(size), device * weights(size) + batch)

    def passed(self, size: Size, count: int) -> float:
        """Bytes of a batch on its way without gradients."""
        return FLOAT * count * (size.passing + IMAGES_IN_HAND * self.values())

    def profiled(self, profile: Profile) -> Footprint:
        """A profile of the largest model, or of the experts."""
        return self.asked(profile.batch_size)

    def floor(self, profile: Profile) -> Footprint:
        """The floor: all images, or a sample, in float32, twice in float64, and their distances to the noisy ones."""
        if profile.floor == "none":
            return Footprint()
        known = min(self.images, profile.floor) if isinstance(profile.floor, int) else self.images
        known *= 2 if self.uses.training.horizontal_flips else 1
        compared = min(known, profile.sampled or known)
        distances = 3 * profile.images * DOUBLE
        return Footprint(known * self.values(), compared * ((FLOAT + 2 * DOUBLE) * self.values() + distances))

    def pruned(self) -> Footprint:
        """A search: gradients of a part of the images; a candidate that is trained takes what a training does."""
        part = max(1, PIXELS_AT_ONCE // seen(self.uses).size ** 2)
        batch = FLOAT * part * (self.base.kept + self.base.passing)
        searched = Footprint(weights(self.base), PRUNED_COPIES * weights(self.base) + batch)
        return searched | self.trained(self.base)

    def encoded(self) -> Footprint:
        """A batch of images on the way through an autoencoder, where there is one."""
        chosen = self.uses.autoencoder
        pixels = 0 if chosen is None else chosen.batch_size * self.uses.data.image_size**2
        return Footprint(device=FLOAT * AUTOENCODER_VALUES * pixels)

    def built(self, extractor: Extractor) -> Footprint:
        """An extractor that is made ready: DINOv2 is read, from a file that is mapped; Inception is small."""
        if extractor.kind == "dinov2":
            return Footprint(host=2 * dinov2_weights(extractor.features))
        return self.classified(extractor.batch_size)

    def classified(self, batch_size: int) -> Footprint:
        """A batch of images on the way through the classifier."""
        pixels = max(batch_size, BATCH) * self.uses.data.image_size**2
        return Footprint(device=FLOAT * CLASSIFIER_VALUES * pixels)

    def sampled(self, sampling: Sampling) -> Footprint:
        """A batch of samples."""
        return self.asked(sampling.batch_size)

    def asked(self, batch_size: int) -> Footprint:
        """A batch on its way through any model; of experts all groups' weights are there."""
        experts = len(self.uses.groups.ids) if self.uses.groups is not None else 1
        largest = max(experts * weights(self.base), weights(self.mixed))
        return Footprint(weights(self.mixed), largest + self.passed(self.mixed, batch_size))

    def scored(self, extractor: Extractor, evaluation: Evaluation) -> Footprint:
        """The features of samples and real images; a covariance takes twice the larger ones in float64.

        Beside them, for precision and recall, the distances of a tile of images to all, their order and a copy.
        """
        sets = (evaluation.samples, self.images)
        both = FLOAT * extractor.features * sum(sets)
        covariance = DOUBLE * extractor.features * (2 * max(sets) + 8 * extractor.features)
        distances = TILE * max(sets) * (2 * FLOAT + DOUBLE)
        compared = Footprint(both + max(covariance, distances), max(self.extracting(extractor), both))
        return self.built(extractor) | compared if extractor.kind == "dinov2" else compared

    def extracting(self, extractor: Extractor) -> float:
        """Bytes of an extractor's network and of a batch of images on the way through it."""
        if extractor.kind == "classifier":
            return self.classified(BATCH).device
        if extractor.kind == "inception":
            return INCEPTION
        batch = BATCH * (DINOV2_TOKENS * DINOV2_VALUES * extractor.features + DINOV2_IMAGE)
        return dinov2_weights(extractor.features) + FLOAT * batch


def prepared_images(facts: Path) -> int | None:
    """How many images the facts of prepared data tell of; None where there are none, or none that can be read."""
    try:
        return validate(Facts, read_json(facts), facts).n
    except UserError:
        return None


def dinov2_weights(features: int) -> float:
    """Bytes of a DINOv2 of so many features, at most: smaller ones have fewer blocks."""
    return FLOAT * DINOV2_BLOCKS * 12 * features**2


def weights(size: Size) -> int:
    """Bytes of a network's parameters."""
    return FLOAT * size.parameters
