"""Measurements of a model as formulas: losses and errors; arrays in, figures out."""
