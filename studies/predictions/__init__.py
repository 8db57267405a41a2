"""ε, v and x0 alone, and as three heads of one network."""
