"""The report: rows, verdicts, pictures and the page that holds them."""
