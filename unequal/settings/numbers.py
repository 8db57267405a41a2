"""Numbers with an upper bound: what lies beyond would end hours later, in an overflow, a full memory, or never."""

from typing import Annotated

from pydantic import AfterValidator, Field

#: 63 bits, as many as generators are seeded with.
LARGEST_SEED = 2**63 - 1
#: Of draws.
Seed = Annotated[int, Field(ge=0, lt=LARGEST_SEED + 1)]
#: Images that a training sees.
Budget = Annotated[int, Field(gt=0, le=10**12)]
#: Images that go through a network at once, or make one step.
BatchSize = Annotated[int, Field(gt=0, le=2**20)]
#: Images or noises behind one figure.
DrawCount = Annotated[int, Field(gt=0, le=10**6)]
#: Channels, features or classes of a layer.
Width = Annotated[int, Field(gt=0, le=2**16)]
#: Layers of a kind.
Depth = Annotated[int, Field(gt=0, le=100)]
#: Of the times of a flow, or of a density: k, which divides the SNR by k²; beyond, all timesteps would be alike.
Shift = Annotated[float, Field(ge=1e-3, le=1e3)]
#: Steps between two events.
Interval = Annotated[int, Field(gt=0, le=10**9)]


def tells_of_scatter(replicas: int) -> int:
    """A number of replicas from which something can be said. Raises ValueError."""
    if replicas == 2:
        raise ValueError("two trainings do not tell how much a third would differ; allowed: 1, or 3 … 40")
    return replicas


#: How often everything is trained.
Replicas = Annotated[int, Field(ge=1, le=40), AfterValidator(tells_of_scatter)]
