"""Running the project as its user does: copies, warm starts, kills, a tracking server, planted faults."""
