"""The command `unequal`: its subcommands, and what stands behind each."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "matplotlib", "PIL", "pydantic", "safetensors", "yaml")
