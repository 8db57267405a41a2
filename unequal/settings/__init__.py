"""params.yaml as typed models: one small module a section, so that a key concerns few stages."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic", "typing_extensions", "yaml")
