"""Running the project as its user does: copies, warm starts, a tracking server, planted faults."""
