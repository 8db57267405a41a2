"""The report of the predictions study: what was found, claims, tables, pictures."""
