"""A stage as a program: settings, files, resumable work, tracking."""

from unequal.errors import needs

needs(__name__, "pipeline", "click", "filelock", "mlflow", "psutil", "pydantic", "threadpoolctl", "yaml")
