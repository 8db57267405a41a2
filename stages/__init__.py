"""The stages of the pipeline: thin programs in its own words."""
