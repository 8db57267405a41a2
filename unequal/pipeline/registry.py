"""Models in MLflow's registry, with a signature: noise in, images out.

MLflow loads them by `mlflow.pyfunc.load_model("models:/<name>/<version>")`, and runs `registered_model.py` for that:
nothing is unpickled. This library must be installed there.
"""

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import mlflow.pyfunc
import numpy as np
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, ErrorCode
from mlflow.types import Schema, TensorSpec

from unequal.models.folder import RECORD, load_record
from unequal.runtime.files import write_json
from unequal.settings.evaluation import Sampling

#: Program that MLflow runs to load a model; its folder in a run.
CODE, FOLDER = Path(__file__).with_name("registered_model.py"), "model"


def signature(model: Path) -> ModelSignature:
    """Noise float32 [n, C, H, W], and images uint8 of the same shape."""
    first = model if (model / RECORD).exists() else model / "group_0"
    shape, kinds = load_record(first).spec.space.shape, (np.dtype(np.float32), np.dtype(np.uint8))
    inputs, outputs = (Schema([TensorSpec(kind, (-1, *shape))]) for kind in kinds)
    return ModelSignature(inputs, outputs)


def register(
    client: MlflowClient, run: str, name: str, model: Path, timesteps: Sequence[int], sampling: Sampling
) -> None:
    """Save a model with a run, and register it as a new version of its name.

    Args:
        client, run: MLflow's client, and the run that has made the model.
        name: in the registry.
        model: folder of the model, or of the experts that together are one.
        timesteps: at which it is asked.
        sampling: the settings by which it is sampled.
    """
    with tempfile.TemporaryDirectory() as folder:
        facts = Path(folder) / "sampling.json"
        write_json(facts, {"timesteps": tuple(timesteps), "sampling": sampling.model_dump(mode="json")})
        with warnings.catch_warnings():  # that no example was given besides the signature
            warnings.simplefilter("ignore")
            mlflow.pyfunc.save_model(
                f"{folder}/{FOLDER}",
                python_model=str(CODE),
                artifacts={"model": str(model), "sampling": str(facts)},
                signature=signature(model),
                pip_requirements=["unequal"],
            )
        client.log_artifacts(run, f"{folder}/{FOLDER}", FOLDER)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
            raise
    client.create_model_version(name, f"{client.get_run(run).info.artifact_uri}/{FOLDER}", run)
