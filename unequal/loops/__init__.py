"""Parts for a user's own training loop: timesteps with weights, experts, a validation loss."""
