"""params.yaml as typed models: one small module a section, so that a key concerns few stages."""
