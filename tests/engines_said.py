"""Readers of the output and the logs of both engines."""

import re
from pathlib import Path

from mlflow import MlflowClient


def rules_of_dry_run(text: str) -> set[str]:
    return set(re.findall(r"^rule (\w+):", text, re.MULTILINE)) - {"all"}


def stages_of_repro(text: str) -> set[str]:
    """Stages that ran, but for `code`, which runs always."""
    ran = re.findall(r"Running stage '([^']+)'", text)
    assert "code" in {name.rpartition(":")[2] for name in ran}
    return {re.sub(r"\W+", "_", name) for name in ran if name.rpartition(":")[2] != "code"}


def tracked_runs(project: Path) -> list:
    client = MlflowClient(f"sqlite:///{project}/mlflow.db")
    experiment = client.get_experiment_by_name("unequal")
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


def children(runs: list) -> list:
    return [one for one in runs if "mlflow.parentRunId" in one.data.tags]
