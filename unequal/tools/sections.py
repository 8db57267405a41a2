"""The sections of a params file, of whichever kind, that say how large a network is and how it is used."""

from pathlib import Path
from typing import Self

from pydantic import ConfigDict

from unequal.models.spec import Space
from unequal.settings.autoencoder import AnyAutoencoder
from unequal.settings.average import Average
from unequal.settings.data import Data
from unequal.settings.evaluation import Evaluation, Extractor, Sampling
from unequal.settings.groups import Groups
from unequal.settings.network import AnyNetwork
from unequal.settings.params.core import Core
from unequal.settings.profile import Profile
from unequal.settings.pruning import Pruning
from unequal.settings.recipe import Conflicts, MeasuredGradients
from unequal.settings.runtime import Runtime
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict, read_yaml, validate
from unequal.settings.training import Training


class Architecture(Strict):
    """What a params file, of whichever kind, says of its network and its groups; all else in it is passed over."""

    model_config = ConfigDict(extra="ignore")

    data: Data
    schedule: Schedule
    network: AnyNetwork
    autoencoder: AnyAutoencoder | None = None
    groups: Groups | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check these sections. Raises UserError."""
        return validate(cls, read_yaml(path), path)


class Remedied(Strict):
    """Of a recipe, what asks for memory beside its network's."""

    model_config = ConfigDict(extra="ignore")

    conflicts: Conflicts | None = None
    gradients: MeasuredGradients | None = None
    average: Average | None = None


class Profiled(Profile):
    """How losses are measured; a study may say more of how they are kept."""

    model_config = ConfigDict(extra="ignore")


class Uses(Architecture):
    """Also what its stages do with the network, and in how many processes; of a study's own sections nothing."""

    runtime: Runtime
    training: Training
    recipes: dict[str, Remedied] | None = None
    profile: Profiled | None = None
    pruning: dict[str, Pruning] | None = None
    extractor: Extractor | None = None
    sampling: Sampling | None = None
    evaluation: Evaluation | None = None


def seen(params: Architecture | Core) -> Space:
    """What the network sees: images, or latents of an autoencoder that need not be there yet."""
    size, channels = params.data.image_size, params.data.channels
    chosen = params.autoencoder if isinstance(params, Architecture) else None
    if chosen is None:
        return Space(channels=channels, size=size)
    return Space(channels=chosen.latent_channels, size=size // chosen.factor)
