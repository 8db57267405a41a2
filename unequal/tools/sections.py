"""Sections of a params file, of whichever kind, that say how large its network is."""

from pathlib import Path
from typing import Self

from pydantic import ConfigDict

from unequal.models.spec import Space
from unequal.settings.autoencoder import AnyAutoencoder
from unequal.settings.data import Data
from unequal.settings.groups import Groups
from unequal.settings.network import AnyNetwork
from unequal.settings.params.core import Core
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict, read_yaml, validate


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


def seen(params: Architecture | Core) -> Space:
    """What the network sees: images, or latents of an autoencoder that need not be there yet."""
    size, channels = params.data.image_size, params.data.channels
    chosen = params.autoencoder if isinstance(params, Architecture) else None
    if chosen is None:
        return Space(channels=channels, size=size)
    return Space(channels=chosen.latent_channels, size=size // chosen.factor)
