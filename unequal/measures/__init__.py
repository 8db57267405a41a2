"""Measurements of a model as formulas: losses, errors, gradients; arrays in, figures out."""
