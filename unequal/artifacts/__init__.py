"""Files that stages hand on, each with its reader and its writer."""

from unequal.extras import needs

needs(__name__, "pipeline", "pydantic")
