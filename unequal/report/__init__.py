"""The report: statements, rows, pictures and the page that holds them."""

from unequal.errors import needs

needs(__name__, "pipeline", "matplotlib", "scipy")
