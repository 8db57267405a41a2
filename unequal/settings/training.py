"""`training` and `runtime`: what all training runs share, and where stages run.

`runtime` shapes no result beyond rounding, so no stage declares it.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Interval

#: Relative width of a plain mean over all steps, 1/√12: no power-function average is wider.
WIDEST = 12**-0.5


class ExponentialAverage(Strict):
    """A fixed horizon, some 1/(1 − decay) steps, in a training of any length; its first steps are not averaged."""

    kind: Literal["exponential"]
    decay: float = Field(ge=0, lt=1, description="share of the average that a step keeps, after warm-up; 0: none")


class PowerAverage(Strict):
    """A fixed share of a training of any length: EDM2's power-function average (2312.02696)."""

    kind: Literal["power"]
    width: float = Field(gt=0, le=WIDEST, description="standard deviation of its profile, as a share of the training")
    keep: int | None = Field(None, gt=0, le=1000, description="points for which `unequal average` works; null: none")


Average = Annotated[ExponentialAverage | PowerAverage, Field(discriminator="kind")]


class Training(Strict):
    """Batches, numerics, averaging and bookkeeping of the training loop."""

    batch_size: BatchSize = Field(description="images an optimizer step, over all processes")
    gradient_accumulation: BatchSize = Field(description="parts in which a batch goes through the network")
    gradient_clip: PositiveFloat | None = Field(description="largest gradient norm; null: no clipping")
    average: Average = Field(description="of the weights of all steps, which makes the model")
    horizontal_flips: bool
    precision: Literal["auto", "fp32", "bf16"] = Field(description="auto: bf16 on a GPU that has it, else fp32")
    gradient_exchange: Literal["fp32", "bf16"] = Field("fp32", description="in which processes average gradients")
    log_every: Interval = Field(description="steps between two lines of the log")
    checkpoint_every: Interval = Field(description="steps between two resumable states")
    pictures: int | None = Field(None, gt=0, le=100, description="grids of samples during a training; null: none")

    @model_validator(mode="after")
    def batch_can_be_split(self) -> Self:
        """Every part of a batch holds at least one image."""
        if self.gradient_accumulation > self.batch_size:
            raise ValueError(
                f"gradient_accumulation: {self.gradient_accumulation} parts of a batch of {self.batch_size}"
            )
        return self


class Tracking(Strict):
    """Where runs are logged."""

    logger: str = Field(default="mlflow", description="mlflow, files, or module:Class of an own one")
    uri: str | None = Field(description="without a password; null: $MLFLOW_TRACKING_URI, else mlflow.db in the project")
    experiment: str = Field(min_length=1)
    artifact_limit_mb: PositiveFloat = Field(le=10**6, description="larger files are logged as a reference only")
    register_models: bool = Field(False, description="register scored models in MLflow, as <experiment>-<model>")
    timeout_s: PositiveFloat = Field(le=86_400, description="longest wait for the tracking server at a stage's end")

    @model_validator(mode="after")
    def secrets_stand_elsewhere(self) -> Self:
        """Refuse passwords and tokens, since params.yaml ends in logs; the address is not repeated."""
        scheme, _, rest = (self.uri or "").partition("://")
        user, at, _ = rest.rpartition("@")
        if scheme != "sqlite" and ((at and ":" in user) or re.search(r"\?[^=]+=", rest)):
            raise ValueError(
                "uri: holds a password or a query; set the environment variables MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, or the whole address as MLFLOW_TRACKING_URI"
            )
        return self


class Runtime(Strict):
    """Device, processes, threads, compiler and tracking."""

    device: Literal["auto", "cpu", "cuda"]
    processes: int | None = Field(None, gt=0, le=1024, description="of a stage; null: one a visible GPU, else one")
    stages_per_gpu: int = Field(1, gt=0, le=64, description="side by side on one GPU, for networks that do not fill it")
    threads: int = Field(1, gt=0, le=1024, description="of each process on a CPU; another number rounds sums otherwise")
    compile: bool | Literal["auto"] = Field(description="torch.compile; auto: long runs on a GPU that has bf16")
    cuda_graphs: bool = Field(True, description="replay a compiled training's passes, on a GPU with one process")
    channels_last: bool
    cudnn_benchmark: bool = Field(False, description="let cuDNN try its algorithms; runs then differ by rounding")
    bucket_mb: int = Field(25, gt=0, le=10_000, description="megabytes of gradients that processes average at a time")
    progress: bool = Field(description="bars on a terminal, elsewhere lines in logs")
    checkpoint_seconds: PositiveFloat | None = Field(None, description="save a state after so many seconds, too")
    price_an_hour: float | None = Field(None, ge=0, description="of the machine, for the report; null: no price")
    tracking: Tracking
