"""What keywords of densities and weights may be, as annotations that settings take their bounds from."""

from typing import Annotated

from annotated_types import Gt

Positive = Annotated[float, Gt(0)]
