"""Images from their sources, their prepared form, and the range that a model sees."""

from unequal.errors import needs

needs(__name__, "pipeline", "PIL", "pydantic", "tqdm")
