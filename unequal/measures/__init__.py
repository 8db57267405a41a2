"""Measurements of a model as formulas: losses, errors, gradients, similarity; arrays in, figures out."""
