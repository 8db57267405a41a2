"""The data room: images from their sources, their prepared form, and the range that a model sees."""
