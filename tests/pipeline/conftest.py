from pathlib import Path

import pytest

from unequal.pipeline.mlflow_logger import make_database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's tables, which take seconds to make."""
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    make_database(path)
    return path
