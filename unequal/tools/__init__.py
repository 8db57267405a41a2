"""Commands beside the pipeline: export a model, estimate a run, clean up, write the schema."""

from unequal.extras import needs

needs(__name__, "pipeline", "click", "matplotlib", "pydantic", "safetensors", "scipy", "yaml")
