"""The report of the consistency study: what was found, claims, tables, pictures."""
