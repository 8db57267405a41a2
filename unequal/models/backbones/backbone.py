"""What the library asks of a kind of network, so that it can be trained, measured, sampled and stored.

A network is a `torch.nn.Module` that answers `net(sample, timestep, …)` with an object whose `sample` is the answer
(see `unequal.settings.condition`). All else that depends on how it is made inside stands in its backbone, but for
how it is pruned (`unequal.models.backbones.prunable`).
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unequal.errors import UserError
from unequal.models.spec import ModelSpec


class Unexportable(Exception):
    """Says what diffusers has no pipeline for."""


class Backbone(ABC):
    """One kind of network.

    Attributes:
        kind: its name, in `network.kind` and in the record of a model.
        module: the class of its networks.
    """

    kind: str
    module: type[nn.Module]

    @abstractmethod
    def build(self, network: Any, spec: ModelSpec) -> nn.Module:
        """A network with fresh weights from PyTorch's global generator. Raises UserError where it cannot be built.

        Args:
            network: settings of this kind.
            spec: how many channels of what size it sees and gives, and what it is told.
        """

    def load_pretrained(self, network: Any, spec: ModelSpec) -> nn.Module:
        """The trained network that the settings name. Raises UserError where it is not there, or for other images."""
        raise UserError(f"network.pretrained: '{network.pretrained}'; networks of kind {self.kind} are trained: null")

    def check_pretrained(self, network: Any, spec: ModelSpec) -> None:
        """Raise UserError where a trained network's source says that it was trained for something else."""
        return

    @abstractmethod
    def config(self, net: Any) -> dict[str, Any]:
        """The architecture as JSON can carry it; of a pruned network, that of before."""

    @abstractmethod
    def from_config(self, config: dict[str, Any]) -> nn.Module:
        """A network of that architecture, with any weights."""

    @abstractmethod
    def example_inputs(self, net: Any) -> tuple[Tensor, ...]:
        """What the network is asked with for one image, in the order of its arguments, on its device."""

    def export(self, net: Any, spec: ModelSpec, target: Path, autoencoder: Path | None = None) -> None:
        """Write a pipeline of diffusers. Raises Unexportable where diffusers has none for such a model.

        Args:
            net, spec: the model.
            target: a new folder.
            autoencoder: folder of that of a model of latents, where it is there.
        """
        raise Unexportable(f"a network of kind {self.kind}")
