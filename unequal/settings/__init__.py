"""params.yaml as typed models: a module for sections that the same stages read."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "typing_extensions", "yaml")
