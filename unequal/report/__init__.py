"""Reports: statements, tables and pictures, and the page that holds them."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "jinja2", "matplotlib", "scipy")
