"""The callback in a loop of accelerate: when it validates, what its trackers are given, and what it compares."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.tracking import GeneralTracker
from torch import Tensor, nn

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.evaluation.validation import Validation
from unequal.evaluation.validation_callback import ValidationCallback
from unequal.models.denoiser import Denoiser

IMAGES = torch.randn(16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
VALIDATION, LINEAR = Validation.stratified(100, images=16, strata=4), NoiseSchedule.linear(100)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.0))

    def forward(self, x_t: Tensor, timestep: Tensor) -> Tensor:
        return self.share * x_t


def scaled() -> Denoiser:
    return Denoiser(Scaled(), LINEAR, "epsilon")


class Lines(GeneralTracker):
    name, requires_logging_directory = "lines", False

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    @property
    def tracker(self) -> Path:
        return self.file

    def store_init_configuration(self, values: dict[str, Any]) -> None: ...

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(values | {"step": step}) + "\n")


def test_a_loop_validates_every_so_many_steps_and_logs_by_its_trackers(tmp_path):
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=True, log_with=Lines(tmp_path / "log.jsonl"))
    accelerator.init_trackers("validated")
    net = accelerator.prepare(Scaled())
    denoiser = Denoiser(net, LINEAR, "epsilon")
    callback = ValidationCallback(accelerator, VALIDATION, IMAGES, every=2, batch_size=5)
    for step in range(4):
        found = callback(denoiser, step)
        assert (found is None) == (step % 2 == 1)
        with torch.no_grad():
            net.share += 0.2
    first, second = map(json.loads, (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines())
    assert (first["step"], second["step"]) == (0, 2)
    assert set(first) == {
        *(f"validation/{name}" for name in ("loss", "loss_stderr", "change", "change_stderr")),
        *(f"validation/stratum_{k}" for k in range(4)),
        "step",
    }
    direct = VALIDATION(scaled(), IMAGES)
    assert first["validation/loss"] == pytest.approx(direct.loss, rel=1e-6)
    assert (first["validation/change"], first["validation/change_stderr"]) == pytest.approx((0, 0))
    change = second["validation/loss"] / first["validation/loss"] - 1
    assert second["validation/change"] == pytest.approx(change)
    assert change < 0 < second["validation/change_stderr"]


class OneOfTwo:
    num_processes, device = 2, torch.device("cpu")

    def __init__(self, rank: int, other: Tensor | None = None) -> None:
        self.process_index, self.other, self.mine = rank, other, torch.zeros(0)

    def unwrap_model(self, model: nn.Module) -> nn.Module:
        return model

    def reduce(self, values: Tensor, how: str) -> Tensor:
        assert how == "sum"
        self.mine = values
        return values if self.other is None else values + self.other

    def log(self, values: dict[str, float], step: int) -> None: ...


def test_processes_share_the_images():
    first = OneOfTwo(0)
    ValidationCallback(first, VALIDATION, IMAGES, every=1)(scaled(), 0)  # type: ignore[arg-type]
    assert ((first.mine > 0) == (torch.arange(16) < 8)).all()
    second = OneOfTwo(1, first.mine)
    found = ValidationCallback(second, VALIDATION, IMAGES, every=1)(scaled(), 0)  # type: ignore[arg-type]
    assert found is not None
    assert found.errors == pytest.approx(VALIDATION(scaled(), IMAGES).errors, rel=1e-6)


def test_no_steps_between_two_validations_are_refused():
    with pytest.raises(UserError, match=r"^a validation every 0 steps; allowed: from 1$"):
        ValidationCallback(OneOfTwo(0), VALIDATION, IMAGES, every=0)  # type: ignore[arg-type]
