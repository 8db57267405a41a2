"""How tests run the project as its user does: copies of it, warm starts, kills, a tracking server, planted faults."""
