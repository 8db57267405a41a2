"""A registered model as MLflow loads it: `predict` makes images uint8 [n, C, H, W] of noise float32 [n, C, H, W].

Labels are drawn as for the evaluation's samples. MLflow runs this file; nothing imports it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from unequal.runtime.files import read_json
from unequal.sampling.ensemble import Ensemble
from unequal.sampling.guidance import guided
from unequal.settings.evaluation import Sampling


class Sampler(PythonModel):
    """A model or a set of experts with the timesteps and the settings by which it is sampled."""

    def load_context(self, context: Any) -> None:
        """Load the model onto a GPU, if there is one."""
        facts = read_json(Path(context.artifacts["sampling"]))
        self.timesteps, self.sampling = facts["timesteps"], Sampling.model_validate(facts["sampling"])
        ensemble = Ensemble.load(context.artifacts["model"], "cuda" if torch.cuda.is_available() else "cpu")
        self.ensemble = guided(ensemble.accelerated(self.sampling.precision), self.sampling.guidance)

    # MLflow takes type hints for a signature, and warns of these.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Sample; an image's number is its place in the noise."""
        noise, chosen = torch.from_numpy(np.asarray(model_input, np.float32)), self.sampling
        parts = [
            self.ensemble.images(
                range(start, min(start + chosen.batch_size, len(noise))),
                self.timesteps,
                start=noise[start : start + chosen.batch_size],
                eta=chosen.eta,
                clip=chosen.clip,
                variance=chosen.variance,
                solver=chosen.solver,
            )
            for start in range(0, len(noise), chosen.batch_size)
        ]
        return torch.cat(parts).numpy()


set_model(Sampler())
