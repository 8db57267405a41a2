"""Commands beside the pipeline: export a model, estimate a run, clean up, write the schema."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "matplotlib", "pydantic", "safetensors", "scipy", "yaml")
