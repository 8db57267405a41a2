"""A stage as a program: settings, files, resumable work, tracking."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "filelock", "psutil", "pydantic", "threadpoolctl", "yaml")
