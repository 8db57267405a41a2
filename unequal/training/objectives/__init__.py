"""What is learned from a batch: losses of one head or three, with a variance, with a condition."""
