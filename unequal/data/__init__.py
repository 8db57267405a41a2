"""Images from their sources, their prepared form, and the range that a model sees."""
