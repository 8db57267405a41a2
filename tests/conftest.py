"""Tiny networks with their records, and the tiny pipeline that several modules look at, made once for all workers."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from filelock import FileLock
from harness.projects import commit, run, tiny_copy
from small_inputs import write_inputs
from specs import spec_of
from stage_project import write_params
from tiny_pipeline import IMAGES, TinyPipeline, write_images
from torch import nn

from unequal.data.prepared import PreparedData
from unequal.models.backbones.dit.backbone import config_for
from unequal.models.backbones.dit.network import DiffusionTransformer
from unequal.models.folder import ModelRecord
from unequal.settings.network import DiT, UNet2D

NetworkSettings = Callable[..., UNet2D]
DiTSettings = Callable[..., DiT]
BuildNet = Callable[..., UNet2DModel]
BuildDiT = Callable[..., DiffusionTransformer]
MakeRecord = Callable[..., ModelRecord]


@pytest.fixture(scope="session")
def tiny_pipeline(tmp_path_factory: pytest.TempPathFactory, worker_id: str, warm_place: Path) -> TinyPipeline:
    """A tiny pipeline, run by Snakemake, recorded by DVC and committed."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "tiny"
    found = TinyPipeline(shared / "project")
    with FileLock(shared.with_suffix(".lock")):
        if not shared.exists():
            shared.mkdir()
            try:
                make(found, warm_place)
            except BaseException:
                shutil.rmtree(shared)
                raise
    return found


def make(tiny: TinyPipeline, warm_place: Path) -> None:
    """Run it out of the warm process."""
    project = tiny_copy(tiny.project, {"data.source": "array", "data.path": IMAGES})
    write_images(project)
    commit(project, "tiny")
    warm = {"PATH": f"{warm_place}{os.pathsep}{os.environ['PATH']}"}
    run(tiny.project, "snakemake", "--cores", "2", environment=warm)
    commit(tiny.project, "recorded")


@pytest.fixture
def write_project(
    project: Path,
    prepared: PreparedData,
    network_settings: Callable[..., UNet2D],
    training_settings: Callable[..., Any],
) -> Callable[..., None]:
    """Write params.yaml for stages on prepared data: a tiny network, its training, and further sections."""
    shutil.copytree(prepared.path, "artifacts/data")

    def write(network: Mapping[str, Any], training: Mapping[str, Any], **sections: Any) -> None:
        own = {"network": network_settings(**network), "training": training_settings(**training)}
        plain = {name: one.model_dump(mode="json") for name, one in own.items()}
        write_params(seed=0, schedule={"name": "linear", "timesteps": 50}, **plain, **sections)

    return write


@pytest.fixture(scope="session")
def inputs_made_once(
    tmp_path_factory: pytest.TempPathFactory,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
) -> Path:
    """A folder with all that the stages of a small pipeline read of one another."""
    folder, net = tmp_path_factory.mktemp("inputs"), tiny_net()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(prepared.path, net, make_record(net))
    return folder


@pytest.fixture
def small_inputs(project: Path, inputs_made_once: Path) -> Path:
    """A copy of them in the working directory, to be spoiled."""
    shutil.copytree(inputs_made_once, project, dirs_exist_ok=True)
    return project


@pytest.fixture(scope="session")
def dit_settings() -> DiTSettings:
    """Settings of a tiny transformer, any of them overridden."""

    def make(**changes: Any) -> DiT:
        tiny = {"kind": "dit", "pretrained": None, "depth": 2, "width": 16, "heads": 2, "patch": 2}
        return DiT(**(tiny | changes))

    return make


@pytest.fixture(scope="session")
def tiny_dit(dit_settings: DiTSettings) -> BuildDiT:
    """A tiny transformer for grey 8×8 images, always with the same weights, none of them 0; further words are of its
    settings or its spec."""

    def build(**changes: Any) -> DiffusionTransformer:
        own = {name: changes.pop(name) for name in list(changes) if name in DiT.model_fields}
        spec = spec_of(**changes, **{name: own[name] for name in ("condition", "variance") if name in own})
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = DiffusionTransformer(config_for(dit_settings(**own), spec))
            for parameter in net.parameters():
                nn.init.normal_(parameter, std=0.2)
        return net

    return build
