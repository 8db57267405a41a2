"""Types of single values: numbers with bounds, names, and files and models that no stage makes.

A number beyond its bound would end hours later, in an overflow, a full memory, or never. Names become parts of commands
and of paths, so whatever a shell or a file system could take for more is refused.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from unequal.runtime.outside import expanded

#: 63 bits, as many as generators are seeded with.
LARGEST_SEED = 2**63 - 1
#: Seed of draws.
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
#: Shift k of the times of a flow, or of a density, which divides the SNR by k²; beyond, all timesteps would be equal.
Shift = Annotated[float, Field(ge=1e-3, le=1e3)]
#: Steps between two events.
Interval = Annotated[int, Field(gt=0, le=10**9)]


#: Short enough that a path of several stays below the 255 bytes that file systems allow a name.
NAME = "[a-z][a-z0-9_]{0,47}"


def fitting(pattern: str, refusal: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of strings that match a pattern as a whole, and the refusal of others."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(refusal)
        return text

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^({pattern})$"})


NAMES = "small letters, digits and _, a letter first, at most 48"
#: Name of a recipe, a model or a way of pruning.
Name = Annotated[str, *fitting(NAME, f"no name; allowed: {NAMES}")]


LINE = r"[^\x00-\x1f\x7f]{1,1024}"
FORMAT = "outside"
#: A value of params.yaml that names such a thing; `unequal.pipeline.sources` knows the keys of all of them.
Outside = Annotated[
    str,
    *fitting(LINE, "no path; allowed: one line of at most 1,024 characters"),
    AfterValidator(expanded),
    WithJsonSchema({"type": "string", "pattern": f"^{LINE}$", "format": FORMAT}),
]
