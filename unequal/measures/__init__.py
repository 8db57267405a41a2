"""What is measured of a model, as formulas: losses, errors, gradients, likeness; arrays in, figures out."""
