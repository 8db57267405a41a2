"""What a training loop of one's own takes along: timesteps with weights, experts, a validation loss."""
