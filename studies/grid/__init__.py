"""What studies share that train a grid of recipes, batches and training seeds."""
