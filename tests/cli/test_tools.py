"""The commands beside the pipeline, as a user calls them."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from commands import done
from diffusers import DDIMPipeline, DDPMPipeline, FlowMatchEulerDiscreteScheduler
from diffusers.models.unets.unet_2d import UNet2DModel
from graph import ROOT
from pydantic import TypeAdapter
from sklearn.datasets import load_digits
from specs import class_labels, low_resolution, spec_of

from unequal.cli.export import export
from unequal.cli.loading import loading_code
from unequal.cli.sample import PictureRequest
from unequal.diffusion.spacing import sampling_timesteps
from unequal.models.backbones.backbone import build_network, count_cost, take_over
from unequal.models.denoiser import Denoiser
from unequal.models.folder import AVERAGES, STATE, ModelRecord, load_record, save_model
from unequal.models.pruned import load_any_model, take_away
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream
from unequal.runtime.files import write_json
from unequal.sampling.ensemble import Ensemble
from unequal.settings.network import UNet2D
from unequal.settings.samplers import AnySampler
from unequal.settings.strict import read_yaml
from unequal.timesteps.building import build_sampler
from unequal.training.batches import Batch
from unequal.training.objectives import objective_for

TIMESTEPS = 100
REMOVALS = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])]
NETWORK = UNet2D(
    **{"pretrained": None, "block_out_channels": (8, 16), "layers_per_block": 1, "attention_resolutions": ()},
    **{"middle_attention": True, "attention_head_dim": 8, "norm_num_groups": 4, "scale_shift": False, "dropout": 0.0},
)


def saved(folder: Path, first: int = 0, last: int = TIMESTEPS - 1, removals=None, **changes) -> Path:
    torch.manual_seed(0)
    own = {name: changes.pop(name) for name in list(changes) if name in ModelRecord.model_fields}
    spec = spec_of(**({"timesteps": TIMESTEPS} | changes))
    net = build_network(NETWORK.model_copy(update={"condition": spec.condition}), spec)
    if removals is not None:
        take_away(net, removals)
    cost = count_cost(net)
    costs = {name: getattr(cost, name) for name in ("macs", "macs_with_attention", "parameters")}
    facts = {"name": folder.name, "spec": spec, "backbone": "unet2d", "first": first, "last": last} | costs | own
    record = ModelRecord(**facts, **dict.fromkeys(("steps", "images_seen", "training_flops"), 1), seed=0)
    save_model(folder, net, record, removals)
    return folder


SAMPLING: dict[str, Any] = {
    "steps": 8, "spacing": "edm", "solver": "dpm_solver_2m", "eta": 0.0, "clip": True, "batch_size": 4,
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_exported_base_samples_in_diffusers_as_it_does_here(project: Path):
    saved(project / "artifacts/models/base")
    export("base", project / "taken")
    pipeline = DDIMPipeline.from_pretrained(project / "taken")
    pipeline.set_progress_bar_config(disable=True)
    start = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    pipeline.scheduler.set_timesteps(10)
    theirs = start
    for t in pipeline.scheduler.timesteps:
        output = pipeline.unet(theirs, t).sample
        theirs = pipeline.scheduler.step(output, t, theirs, use_clipped_model_output=True).prev_sample
    ours = Ensemble.load("artifacts/models/base").denoise(start, pipeline.scheduler.timesteps.tolist())
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_an_exported_flow_samples_by_the_scheduler_of_diffusers_as_it_does_here(project: Path):
    folder = saved(project / "artifacts/models/base", prediction="velocity", schedule="flow", shift=3.0)
    net, record = load_any_model(folder)
    trained(net, record.spec)
    save_model(folder, net, record)
    export("base", project / "taken")
    theirs = UNet2DModel.from_pretrained(project / "taken", subfolder="unet")
    scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained(project / "taken", subfolder="scheduler")
    chosen = sampling_timesteps(10, TIMESTEPS)
    # Times before they are shifted: given a number of steps, the scheduler shifts its last time twice.
    scheduler.set_timesteps(sigmas=[(t + 0.5) / TIMESTEPS for t in chosen])
    start = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    pictures = start
    with torch.no_grad():
        for t in scheduler.timesteps:
            pictures = scheduler.step(theirs(pictures, t).sample, t, pictures).prev_sample
    ours = Ensemble.load(folder).denoise(start, chosen, clip=False)
    torch.testing.assert_close(ours, pictures, atol=1e-4, rtol=1e-4)
    assert (ours - start).abs().max() > 0.1
    taken = NETWORK.model_copy(update={"pretrained": str(project / "taken")})
    again = take_over(taken, record.spec).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in net.state_dict().items())


def trained(net: torch.nn.Module, spec: ModelSpec) -> None:
    """Take a few steps on digits by the velocity's loss."""
    schedule = spec.noise_schedule()
    objective, generator = objective_for(spec, schedule), np.random.default_rng(0)
    images = torch.from_numpy(load_digits().images).float()[:, None] / 8 - 1
    sampler = build_sampler(TypeAdapter(AnySampler).validate_python({"density": "logit_normal"}), schedule)
    denoiser = Denoiser.of(net, spec)
    descent = torch.optim.Adam(net.train().requires_grad_(True).parameters(), lr=2e-3)
    for _ in range(20):
        drawn = sampler.sample(generator.random((4, 16)))
        index = torch.from_numpy(generator.integers(len(images), size=16))
        times, weights = torch.from_numpy(drawn.timesteps), torch.from_numpy(drawn.weights).float()
        loss = objective(denoiser, Batch(images[index], torch.randn(16, 1, 8, 8), times, weights)).weighted.mean()
        descent.zero_grad()
        loss.backward()
        descent.step()
    net.eval()


def test_an_exported_learned_variance_samples_in_diffusers_as_it_does_here(project: Path):
    saved(project / "artifacts/models/base", variance="learned")
    export("base", project / "taken")
    pipeline = DDPMPipeline.from_pretrained(project / "taken")
    start = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    pipeline.scheduler.set_timesteps(25)
    timesteps = pipeline.scheduler.timesteps.tolist()
    theirs, generator = start, torch.Generator().manual_seed(1)
    for t in timesteps:
        theirs = pipeline.scheduler.step(pipeline.unet(theirs, t).sample, t, theirs, generator=generator).prev_sample
    drawn = torch.Generator().manual_seed(1)
    ours = Ensemble.load("artifacts/models/base").denoise(
        start, timesteps, eta=1, noise=lambda step: torch.randn(start.shape, generator=drawn), variance="learned"
    )
    assert timesteps[-1] == 0
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert pipeline(batch_size=1, num_inference_steps=2, output_type="np").images.shape == (1, 8, 8, 1)


def test_exported_experts_are_those_that_belong_together(project: Path):
    folder = project / "artifacts/models/experts_pruned"
    saved(folder / "group_0", 0, 49, group=0, groups=2)
    saved(folder / "group_1", 50, 99, group=1, groups=2)
    saved(folder / "group_2", 90, 99, group=2, groups=3)  # left behind by an earlier grouping
    export("experts_pruned", project / "taken")
    assert sorted(path.name for path in (project / "taken").iterdir()) == ["README.md", "group_0", "group_1"]
    images = Ensemble.load(project / "taken").sample(3, sampling_timesteps(5, TIMESTEPS))
    assert images.shape == (3, 1, 8, 8)
    assert images.dtype == torch.uint8
    np.testing.assert_array_equal(images, Ensemble.load(folder).sample(3, sampling_timesteps(5, TIMESTEPS)))


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({}, "a pruned model"),
        ({"condition": low_resolution(2)}, "a model of super-resolution"),
        ({"autoencoder": "abc"}, "a model of latents"),
        ({"condition": class_labels(3)}, "a model of 3 classes"),
        ({"prediction": "velocity"}, "a model that predicts 'velocity' on schedule 'linear'"),
        ({"schedule": "flow"}, "a model that predicts 'epsilon' on schedule 'flow'"),
    ],
)
def test_what_no_pipeline_of_diffusers_holds_is_exported_as_it_is(
    project: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], obstacle: str
):
    source = saved(project / "artifacts/models/mine", removals=None if changes else REMOVALS, **changes)
    (source / AVERAGES).mkdir()
    (source / STATE).write_text("of the training, several times the bytes of the model")
    export("mine", project / "taken")
    assert not {AVERAGES, STATE} & {path.name for path in (project / "taken").iterdir()}
    first = f"{project / 'taken'}: diffusers cannot load {obstacle}; unequal.Ensemble.load does\n"
    assert capsys.readouterr().out.startswith(first)
    (taken, record), (net, _) = load_any_model(project / "taken"), load_any_model(source)
    assert record == Ensemble.load(project / "taken").record
    assert all(torch.equal(a, b) for a, b in zip(taken.parameters(), net.parameters(), strict=True))


@pytest.mark.parametrize("removals", [None, REMOVALS], ids=["in diffusers", "here"])
def test_an_export_says_how_it_is_loaded_and_has_a_card(project: Path, removals: Any) -> None:
    saved(project / "artifacts/models/mine", removals=removals)
    scores = {
        "fid_mean": 1.234567, "reference": "training images", "features": 64, "extractor": "classifier-0123",
        "samples_per_seed": 1000, "sampling": SAMPLING,
    }  # fmt: skip
    write_json(project / "results/fid/mine.json", scores)
    name = load_record(project / "artifacts/models/mine").name
    write_json(project / f"results/metrics/train_{name}.json", {"precision": "bf16", "compiled": False})
    write_json(project / "results/take.json", {"model": "mine", "fid": 1.0})
    written, _, code = done("export", "best", "taken").partition("To load it:\n\n")
    assert "README.md" in written
    card = (project / "taken/README.md").read_text()
    said = ("# mine", "FID 1.23 against training images", "64 of classifier-0123", "| bf16 |", "1000 a seed, by DPM-S")
    assert [words for words in said if words not in card] == []
    assert dedent(code).strip() in card
    loaded: dict[str, Any] = {}
    exec(dedent(code), loaded)
    assert len(loaded["images"]) == 4


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ddim": ({}, {"steps": 7, "spacing": "uniform", "eta": 0.0, "clip": True}),
    "not clipped": ({"prediction": "v_prediction"}, {"steps": [99, 60, 7], "eta": 0.0, "clip": False}),
    "dpm": ({}, SAMPLING),
    "dpm of a network with a variance": ({"variance": "learned"}, SAMPLING),
    "heun": ({"prediction": "sample"}, SAMPLING | {"solver": "heun"}),
    "flow": (
        {"prediction": "velocity", "schedule": "flow", "shift": 3.0},
        {"steps": 6, "spacing": "edm", "eta": 0.0, "clip": False},
    ),
    "here": ({"removals": REMOVALS}, SAMPLING),
}


@pytest.mark.parametrize(("spec", "sampling"), WAYS.values(), ids=WAYS)
def test_the_code_of_an_export_samples_as_the_run_did(
    project: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], sampling: dict[str, Any]
) -> None:
    """From the same noise, but for rounding."""
    folder = saved(project / "artifacts/models/mine", **spec)
    settings = read_yaml(ROOT / "presets/digits.yaml")
    settings["sampling"] = {"batch_size": 4} | sampling
    (project / "params.yaml").write_text(yaml.safe_dump(settings))
    export("mine", project / "taken")
    code = (project / "taken/README.md").read_text().split("```python\n")[1].partition("```")[0]
    assert "# The run" not in code and str(project) not in code
    start = Ensemble.load(folder).noise_of(range(4), 0, Stream.SAMPLE_START)
    monkeypatch.setattr(torch, "randn", lambda *_: start)
    taken: dict[str, Any] = {}
    exec(code, taken)
    monkeypatch.undo()
    monkeypatch.chdir(project)
    images = PictureRequest("mine", 4).images()
    assert np.abs(taken["images"].numpy().astype(int) - images).max() <= 1
    assert len(np.unique(images)) > 10


def test_the_code_of_an_export_says_where_it_differs_from_the_run(project: Path) -> None:
    flow = load_record(saved(project / "flow", prediction="velocity", schedule="flow"))
    (project / "taken/unet").mkdir(parents=True)
    (project / "taken/scheduler").mkdir()
    write_json(project / "results/fid/flow.json", {"sampling": SAMPLING})
    code = loading_code(project / "taken", "flow", flow)
    assert code.startswith("# The run steps by dpm_solver_2m, this by Euler, and clips predicted images.\n")
