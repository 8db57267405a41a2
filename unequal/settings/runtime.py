"""`runtime`: where a stage runs and where it is logged. Shapes no result beyond rounding, so no stage declares it."""

from typing import Literal

from pydantic import Field, PositiveFloat

from unequal.settings.strict import Strict


class Tracking(Strict):
    """MLflow."""

    uri: str | None = Field(
        description="tracking server; null: $MLFLOW_TRACKING_URI, else mlflow.db beside the project"
    )
    experiment: str = Field(min_length=1)
    artifact_limit_mb: PositiveFloat = Field(le=10**6, description="larger files are logged as a reference only")
    timeout_s: PositiveFloat = Field(le=86_400, description="longest wait for the tracking server at a stage's end")


class Runtime(Strict):
    """Device, processes, threads, compiler and tracking."""

    device: Literal["auto", "cpu", "cuda"]
    processes: int | None = Field(
        default=None,
        gt=0,
        le=1024,
        description="of a stage that trains, profiles or samples; null: one a visible GPU, else one",
    )
    threads: int = Field(
        default=1, gt=0, le=1024, description="of each process on a CPU; sums round otherwise with another number"
    )
    compile: bool = Field(description="torch.compile the network")
    channels_last: bool
    progress: bool = Field(description="progress bars on a terminal")
    tracking: Tracking
