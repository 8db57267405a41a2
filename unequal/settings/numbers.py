"""Numbers with an upper bound: what lies beyond would end hours later, in an overflow, a full memory, or never."""

from typing import Annotated

from pydantic import Field

#: Of draws: 63 bits, as many as generators are seeded with.
Seed = Annotated[int, Field(ge=0, lt=2**63)]
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
#: Steps between two events.
Interval = Annotated[int, Field(gt=0, le=10**9)]
