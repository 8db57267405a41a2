"""The command `unequal`: its subcommands and their implementations."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "matplotlib", "PIL", "pydantic", "safetensors", "yaml")
