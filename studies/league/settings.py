"""`confirmation`: what came first is trained once more, on seeds that had no say in that."""

from pydantic import Field

from unequal.settings.numbers import Seed
from unequal.settings.strict import Strict


class Confirmation(Strict):
    """The first arm, whichever it is found to be, and the control, each once in every block."""

    seeds: tuple[Seed, ...] = Field(min_length=2, description="of blocks of their own: in neither `blocks` nor `pilot`")
