"""Fixtures that tests of the library and of studies share: data, a project, settings."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from filelock import FileLock
from harness.starting import start_warm
from hypothesis import settings as hypothesis_settings
from specs import spec_of
from torch import nn

from unequal.data.preparation import prepare
from unequal.data.prepared import PreparedData
from unequal.models.backbones.backbone import backbone_of, count_cost
from unequal.models.backbones.unet2d.backbone import build_unet
from unequal.models.conditions import condition_of
from unequal.models.folder import ModelRecord
from unequal.settings.data import Data
from unequal.settings.network import UNet2D
from unequal.settings.training import Runtime, Tracking, Training

# Programs that tests start take one thread, as the tests do; those that are given more wait without spinning, since
# workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A loaded machine makes no test fail.
hypothesis_settings.register_profile("unequal", deadline=None)
hypothesis_settings.load_profile("unequal")

# Tests send them: `nohup`, or a shell's background, must not have the programs that they start ignore them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

NetworkSettings = Callable[..., UNet2D]
BuildNet = Callable[..., UNet2DModel]
MakeRecord = Callable[..., ModelRecord]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left with it at the end: whole pipelines, then slow tests."""

    def rank(item: pytest.Item) -> int:
        fixtures = getattr(item, "fixturenames", ())
        ranks = (
            item.get_closest_marker("slurm"),
            {"tiny_pipeline", "unkilled"} & {*fixtures},
            "warm_place" in fixtures,
            item.get_closest_marker("slow"),
        )
        return next((number for number, found in enumerate(ranks) if found), len(ranks))

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Keep the collector from looking through all tests and libraries again and again: a sixth of all time else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `gpu`, or `gpu(n)`, on a machine with fewer of them."""
    for mark in item.iter_markers("gpu"):
        wanted, found = (*mark.args, 1)[0], torch.cuda.device_count()
        if found < wanted:
            pytest.skip(f"needs {wanted} CUDA device(s), found {found}")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tiny networks are faster so, and sums are equal on every machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def warm_place(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of a process that has the heavy libraries in memory, out of which programs start in no time.

    One serves all workers, and ends when they have.
    """
    alone, base = worker_id == "master", tmp_path_factory.getbasetemp()
    address = (base if alone else base.parent) / "warm"
    with FileLock(address.with_suffix(".lock")):
        if not address.exists():
            address.write_text(str(start_warm(watched=os.getpid() if alone else os.getppid())))
    return Path(address.read_text())


@pytest.fixture(scope="module")
def warm_start(warm_place: Path) -> Iterator[None]:
    """Programs and engines that start `python -m …` start it out of that process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join((str(warm_place), str(Path(sys.executable).parent), os.environ["PATH"])))
        yield


@pytest.fixture(scope="session")
def network_settings() -> NetworkSettings:
    """Settings of a tiny network, any of them overridden."""

    def make(**changes: Any) -> UNet2D:
        tiny = {
            "pretrained": None,
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "attention_resolutions": (),
            "middle_attention": True,
            "attention_head_dim": 4,
            "norm_num_groups": 4,
            "scale_shift": False,
            "dropout": 0.0,
        }
        return UNet2D(**(tiny | changes))

    return make


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """48 grey 8×8 images of two classes (bright above, bright below), 36 of them for training."""
    folder = tmp_path_factory.mktemp("prepared")
    labels = np.arange(48) % 2
    images = np.random.default_rng(0).integers(0, 60, (48, 1, 8, 8), dtype=np.uint8)
    images[labels == 0, :, :4] += 180
    images[labels == 1, :, 4:] += 180
    np.savez(folder / "a.npz", images=images, labels=labels)
    settings = Data(source="array", path=str(folder / "a.npz"), image_size=8, channels=1, fit="exact", holdout=0.25)
    prepare(settings, 0, folder / "data")
    return PreparedData.open(folder / "data")


@pytest.fixture(scope="session")
def training_settings() -> Callable[..., Training]:
    """Settings of a short training run, any of them overridden."""

    def make(**changes: Any) -> Training:
        short = {
            "batch_size": 4,
            "gradient_accumulation": 1,
            "gradient_clip": 1.0,
            "average": {"kind": "exponential", "decay": 0.9},
            "horizontal_flips": False,
            "precision": "fp32",
            "log_every": 2,
            "checkpoint_every": 4,
        }
        return Training(**(short | changes))

    return make


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """Everything on the CPU, without bars, compiler or server."""
    tracking = Tracking(uri=None, experiment="test", artifact_limit_mb=1.0, timeout_s=1.0)
    return Runtime(device="cpu", compile=False, channels_last=False, progress=False, tracking=tracking)


class Silence:
    """Takes the tracker's place."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@contextmanager
def working_in(folder: Path) -> Iterator[Path]:
    """The folder is the working directory, and nothing is tracked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("unequal.pipeline.stage.Tracker", Silence)
        yield folder


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A folder of the test's own, which is the working directory."""
    with working_in(tmp_path) as folder:
        yield folder


@pytest.fixture(scope="module")
def module_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of all tests of a module, for what is made once and read by each of them."""
    with working_in(tmp_path_factory.mktemp("project")) as folder:
        yield folder


@pytest.fixture(scope="session")
def tiny_net(network_settings: NetworkSettings) -> BuildNet:
    """A tiny network for grey 8×8 images, always with the same weights."""

    def build(heads: int = 1, channels: int = 1, **changes: Any) -> UNet2DModel:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = network_settings(**changes)
            answers = heads * (2 if network.variance == "learned" and heads == 1 else 1)
            return build_unet(network, 8, condition_of(network.condition).input_channels(channels), answers * channels)

    return build


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    """The record of a network, any field of it or of its spec overridden."""

    def make(net: nn.Module, **changes: Any) -> ModelRecord:
        cost = count_cost(net)
        own = {name: changes.pop(name) for name in list(changes) if name in ModelRecord.model_fields}
        spec = spec_of(**changes)
        facts: dict[str, Any] = {
            "name": "tiny",
            "spec": spec,
            "backbone": backbone_of(net).kind,
            "seed": 0,
            "steps": 3,
            "images_seen": 12,
            "training_flops": 36 * cost.macs,
            "macs": cost.macs,
            "macs_with_attention": cost.macs_with_attention,
            "parameters": cost.parameters,
            "first": 0,
            "last": spec.timesteps - 1,
        }
        return ModelRecord(**(facts | own))

    return make
