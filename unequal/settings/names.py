"""Names that become part of a command and of a path: whatever a shell or a file system could take for more is refused.

dvc.yaml fills them into commands, so a stage's options hold nothing but what stands here.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

#: Short enough that a path of several stays below the 255 bytes that file systems allow a name.
NAME = "[a-z][a-z0-9_]{0,47}"
#: A number in a name, of which a size could be made.
NUMBER = "[1-9][0-9]{0,8}"


def fitting(pattern: str, refusal: str) -> tuple[AfterValidator, WithJsonSchema]:
    """What makes strings a type: a pattern for the whole of it, and what is said of those that do not match."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(refusal)
        return text

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


NAMES = "small letters, digits and _, a letter first, at most 48"
#: Of a recipe, a model or a way of pruning.
Name = Annotated[str, *fitting(NAME, f"no name; allowed: {NAMES}")]
#: Images at once × parts accumulated before an optimizer step.
BatchName = Annotated[
    str, *fitting(f"{NUMBER}x{NUMBER}", "no batch; allowed: images at once × parts accumulated, as in 8x4 or 32x1")
]
#: Channels of each resolution.
WidthName = Annotated[
    str, *fitting(f"{NUMBER}(-{NUMBER}){{0,11}}", "no channels; allowed: those of each resolution, as in 16-32")
]
