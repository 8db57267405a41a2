"""`auto` for precision and compiler: what the device decides, and that equal settings give equal bytes there."""

import shutil
from collections.abc import Callable

import pytest
import torch
from here import Here
from specs import recipe_of, spec_of

from unequal import workspace
from unequal.files import content_hash
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.initialisation import Scope, Start
from unequal.training.results import write_results
from unequal.training.train import TrainingJob, train
from unequal.workspace import COMPILED_FROM, chosen_precision, is_compiled

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def has_bf16(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def answer(supported: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported)

    return answer


@pytest.mark.parametrize(
    ("device", "supported", "precision", "compiled"),
    [(CPU, True, "fp32", False), (GPU, False, "fp32", False), (GPU, True, "bf16", True)],
)
def test_auto_is_what_the_device_has(device, supported, precision, compiled, has_bf16, monkeypatch):
    has_bf16(supported)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/cc" if name == "cc" else None)
    monkeypatch.setattr(workspace, "find_spec", lambda name: name)
    assert chosen_precision("auto", device) == precision
    assert is_compiled("auto", device, COMPILED_FROM) == compiled
    assert not is_compiled("auto", device, COMPILED_FROM - 1)
    for asked in ("fp32", "bf16"):
        assert chosen_precision(asked, device) == asked
    for switched in (True, False):
        assert is_compiled(switched, device, 0) == switched


@pytest.mark.parametrize("missing", ["a compiler", "Triton"])
def test_auto_compiles_nothing_where_it_cannot(missing, has_bf16, monkeypatch):
    has_bf16(True)
    monkeypatch.setattr(shutil, "which", lambda name: None if missing == "a compiler" else name)
    monkeypatch.setattr(workspace, "find_spec", lambda name: None if missing == "Triton" else name)
    assert not is_compiled("auto", GPU, COMPILED_FROM)


@pytest.mark.parametrize(("supported", "precision"), [(False, "fp32"), (True, "bf16")])
def test_auto_trains_the_bytes_of_what_it_chooses(
    supported, precision, tmp_path, runtime, prepared, tiny_net, training_settings, monkeypatch
):
    monkeypatch.setattr(workspace, "has_bf16", lambda device: supported)

    def weights(asked: str) -> str:
        here, spec = Here(tmp_path / asked, runtime), spec_of()
        job = TrainingJob("base", recipe_of(), training_settings(precision=asked), prepared, 5)
        start = Start(tiny_net(), spec, Scope.whole(spec))
        write_results(here, train(here, job, start, TimestepSampler(uniform(50))))
        figures = here.figures["results/metrics/train_base.json"]
        assert (figures["precision"], figures["compiled"]) == (precision, False)
        return content_hash(here.root / "artifacts/models/base")

    assert weights("auto") == weights(precision)
