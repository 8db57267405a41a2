"""A validation loss within a loop of accelerate, shared by its processes and logged by its trackers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from unequal.errors import UserError
from unequal.evaluation.validation import Validated, Validation
from unequal.models.denoiser import Denoiser

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass
class ValidationCallback:
    """Validates a model every so many steps, by all processes together.

    Attributes:
        accelerator: knows the processes, and its trackers.
        validation: what is measured.
        images: [n or more, …], held out, the same in all processes.
        every: steps between two validations; the first is at step 0.
        batch_size: images at once.
        arguments: further arguments of the network, [n or more, …] each.
        name: before the names of what is logged.
        first: result of the first validation, with which later ones are compared.
    """

    accelerator: "Accelerator"
    validation: Validation
    images: Tensor
    every: int
    batch_size: int = 64
    arguments: dict[str, Tensor] = field(default_factory=dict)
    name: str = "validation"
    first: Validated | None = None

    def __post_init__(self) -> None:
        """Raise UserError where the steps between two validations are none."""
        if self.every < 1:
            raise UserError(f"a validation every {self.every} steps; allowed: from 1")

    def __call__(self, denoiser: Denoiser, step: int) -> Validated | None:
        """Validate and log after a step, if its time has come; to be called by all processes.

        Args:
            denoiser: of the network that is trained, as accelerate has prepared it.
            step: its number.

        Returns:
            The result, or None between two validations.
        """
        if step % self.every:
            return None
        rank, processes = self.accelerator.process_index, self.accelerator.num_processes
        count, device = len(self.validation.timesteps), self.accelerator.device
        share = range(count * rank // processes, count * (rank + 1) // processes)
        alone = denoiser.around(self.accelerator.unwrap_model(denoiser.net))
        arguments = {name: rows.to(device) for name, rows in self.arguments.items()}
        mine = self.validation.measured(alone, self.images.to(device), share, self.batch_size, **arguments)
        validated = self.validation.validated(self.accelerator.reduce(mine, "sum"))
        self.first = self.first or validated
        self.accelerator.log(self.figures(validated), step=step)
        return validated

    def figures(self, validated: Validated) -> dict[str, float]:
        """The loss and its standard error, its paired change from the first one, and the mean of each stratum."""
        change, error = validated.change_from(self.first or validated)
        whole = {"loss": validated.loss, "loss_stderr": validated.stderr, "change": change, "change_stderr": error}
        strata = {f"stratum_{k}": float(mean) for k, mean in enumerate(validated.strata.mean)}
        return {f"{self.name}/{name}": value for name, value in (whole | strata).items()}
