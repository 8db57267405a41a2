"""Images from their sources, their prepared form, and the range that a model sees."""

from unequal.extras import needs

needs(__name__, "pipeline", "PIL", "pydantic", "tqdm")
