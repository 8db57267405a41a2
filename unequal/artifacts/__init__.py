"""Files that one stage writes and another reads, each with its reader and its writer."""

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic")
