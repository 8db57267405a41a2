"""Commands beside the pipeline: export a model, estimate a run, clean up, write the schema."""
