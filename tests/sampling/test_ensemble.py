"""DDIM with one model or several: noise by image, routing by timestep, and what cannot be sampled from."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from one_line import refusal
from specs import class_labels, low_resolution, record_of, spec_of
from torch import Tensor, nn

from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import sampling_timesteps
from unequal.errors import UserError
from unequal.models.denoiser import Denoiser
from unequal.models.folder import load_model, save_model
from unequal.models.spec import ModelSpec
from unequal.models.weights import all_fit
from unequal.sampling.ensemble import Ensemble, Expert

STEPS = sampling_timesteps(8, 50)


class Answering(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor] = lambda x: 0.5 * x) -> None:
        super().__init__()
        self.function = function
        self.asked: list[int] = []
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x_t: Tensor, timesteps: Tensor) -> Any:
        assert len(set(timesteps.tolist())) == 1
        self.asked.append(int(timesteps[0]))
        return SimpleNamespace(sample=self.function(x_t))


def expert_of(net: nn.Module, first: int, last: int, spec: ModelSpec) -> Expert:
    return Expert(Denoiser.of(net, spec), record_of(first, last, spec))


def experts_of(nets: Sequence[nn.Module], ranges: Sequence[tuple[int, int]], spec: ModelSpec | None = None) -> Ensemble:
    spec = spec or spec_of()
    return Ensemble([expert_of(net, *bounds, spec) for net, bounds in zip(nets, ranges, strict=True)])


def pixels() -> Ensemble:
    return single(Answering())


def single(net: nn.Module, prediction: str = "epsilon", **changes: Any) -> Ensemble:
    return experts_of([net], [(0, 49)], spec_of(prediction, **changes))


@pytest.mark.parametrize(("eta", "batch_size"), [(0.0, 3), (0.7, 1), (0.7, 64), (1.0, 3)])
def test_an_image_depends_on_seed_and_number_alone(eta, batch_size):
    whole = single(Answering()).sample(10, STEPS, seed=4, batch_size=10, eta=eta)
    cut = single(Answering()).sample(10, STEPS, seed=4, batch_size=batch_size, eta=eta)
    fewer = single(Answering()).sample(6, STEPS, seed=4, batch_size=4, eta=eta)
    assert whole.shape == (10, 1, 8, 8)
    assert whole.dtype == torch.uint8
    assert torch.equal(cut, whole)
    assert torch.equal(fewer, whole[:6])


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_a_model_that_always_sees_one_image_samples_it(eta):
    image = torch.linspace(-1, 1, 64).reshape(1, 1, 8, 8)
    samples = single(Answering(lambda x: image.expand_as(x)), "sample").sample(3, STEPS, eta=eta)
    expected = ((image + 1) * 127.5).round().to(torch.uint8).expand(3, -1, -1, -1)
    assert torch.equal(samples, expected)


def test_parameters_are_summed_on_disk_and_averaged_over_steps():
    spec, net = spec_of(), Answering()
    records = [record_of(0, 19, spec).changed(parameters=10), record_of(20, 49, spec).changed(parameters=40)]
    ensemble = Ensemble([Expert(Denoiser.of(net, spec), record) for record in records])
    assert ensemble.parameters == 50
    assert ensemble.parameters_per_step([49, 30, 25, 5]) == (3 * 40 + 10) / 4


def learned(said: float, ranges: Sequence[tuple[int, int]] = ((0, 49),)) -> Ensemble:
    nets = [Answering(lambda x: torch.cat([0.5 * x, torch.full_like(x, said)], dim=1)) for _ in ranges]
    return experts_of(nets, ranges, spec_of("sample", variance="learned"))


@pytest.mark.parametrize(("ranges", "batch_size"), [([(0, 49)], 5), ([(0, 16), (17, 32), (33, 49)], 2)])
def test_the_least_learned_variance_is_ddims_with_all_its_noise(ranges, batch_size):
    plain, experts = learned(0.3).sample(5, STEPS, eta=1), learned(-1.0, ranges)
    assert torch.equal(experts.sample(5, STEPS, batch_size=batch_size, eta=1, variance="learned"), plain)


@pytest.mark.parametrize("clip", [True, False])
def test_clipping_keeps_predicted_images_in_range(clip):
    experts = single(Answering(lambda x: 3 * torch.ones_like(x)), "sample")
    found = experts.denoise(torch.randn(2, 1, 8, 8), STEPS, clip=clip)
    torch.testing.assert_close(found, torch.full_like(found, 1.0 if clip else 3.0))


def test_each_timestep_goes_to_its_expert():
    nets = [Answering() for _ in range(3)]
    routed = experts_of([nets[2], nets[0], nets[1]], [(31, 49), (0, 9), (10, 30)])
    routed.sample(5, [49, 31, 30, 12, 10, 9, 0], batch_size=2)
    assert [net.asked for net in nets] == [[9, 0] * 3, [30, 12, 10] * 3, [49, 31] * 3]
    assert [routed.of(t).record.first for t in (0, 9, 10, 30, 31, 49)] == [0, 0, 10, 10, 31, 31]
    assert routed.macs_per_image([49, 31, 30, 9, 0]) == 2 * 131 + 110 + 2 * 100
    assert routed.parameters == 30


def test_interleaved_timesteps_go_to_their_experts():
    nets, spec = [Answering(), Answering(), Answering()], spec_of()
    records = [record_of(i, 48 + i if i < 2 else 47, spec).changed(stride=3) for i in range(3)]
    experts = [Expert(Denoiser.of(net, spec), one) for net, one in zip(nets, records, strict=True)]
    routed = Ensemble(experts[::-1])
    routed.sample(1, [49, 47, 30, 12, 10, 9, 1])
    assert [net.asked for net in nets] == [[30, 12, 9], [49, 10, 1], [47]]
    assert routed.steps_per_expert([49, 47, 30, 12, 10, 9, 1]) == [3, 3, 1]


def test_every_prediction_of_heun_goes_to_the_expert_of_its_own_timestep():
    """The corrector asks at the timestep that a step leads to, which may be another expert's."""
    nets = [Answering() for _ in range(2)]
    routed = experts_of(nets, [(0, 24), (25, 49)])
    routed.sample(1, [49, 25, 24, 0], solver="heun")
    assert [net.asked for net in nets] == [[24, 24, 0, 0], [49, 25, 25]]
    assert routed.steps_per_expert(network_calls("heun", [49, 25, 24, 0])) == [4, 3]


def test_experts_may_predict_differently():
    image = torch.full((1, 1, 8, 8), 0.25)
    sample = expert_of(Answering(lambda x: image.expand_as(x)), 0, 20, spec_of("sample"))
    experts = Ensemble([sample, expert_of(Answering(), 21, 49, spec_of("epsilon"))])
    torch.testing.assert_close(experts.denoise(torch.randn(2, 1, 8, 8), STEPS), image.expand(2, -1, -1, -1))


GAPS, OVERLAPS = [[(1, 49)], [(0, 48)], [(0, 20), (22, 49)]], [[(0, 20), (20, 49)], [(0, 49), (10, 20)]]


@pytest.mark.parametrize("ranges", GAPS + OVERLAPS)
def test_gaps_and_overlaps_are_refused(ranges):
    with pytest.raises(UserError, match=r"^experts \[.* do not cover timesteps|^the experts end at t = 48, the"):
        experts_of([Answering() for _ in ranges], ranges)


BASES = [
    ("schedule", {"schedule": "cosine"}), ("schedule", {"timesteps": 60}), ("space", {"autoencoder": "x"}),
    ("condition", {"condition": low_resolution(2)}), ("variance", {"variance": "learned"}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "change"), BASES)
def test_experts_of_different_bases_are_refused(field, change):
    one = expert_of(Answering(), 0, 20, spec_of())
    other = Expert(one.denoiser, record_of(21, 49, spec_of(**change)))
    with pytest.raises(UserError, match=f"experts differ in {field}: "):
        Ensemble([one, other])


@pytest.mark.parametrize("batch_size", [3, 8])
def test_super_resolution_enlarges_the_originals_in_turn(batch_size):
    originals = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    enlarging = single(Answering(lambda x: x[:, 1:]), "sample", condition=low_resolution(4))
    found = enlarging.sample(8, STEPS, batch_size=batch_size, originals=originals)
    low = originals.float().reshape(3, 1, 2, 4, 2, 4).mean((3, 5))
    expected = torch.nn.functional.interpolate(low, size=8, mode="bilinear")[torch.arange(8) % 3]
    assert (found - expected).abs().max() <= 0.5 + 1e-3


def test_generation_looks_at_no_originals():
    originals = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    assert torch.equal(single(Answering()).sample(4, STEPS, originals=originals), single(Answering()).sample(4, STEPS))


class Named(Answering):
    def forward(self, x_t: Tensor, timesteps: Tensor, class_labels: Tensor) -> Any:
        return SimpleNamespace(sample=torch.ones_like(x_t) * class_labels[:, None, None, None] / 4 - 1)


def class_conditional() -> Ensemble:
    return single(Named(), "sample", condition=class_labels(9))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_labels_are_drawn_by_seed_and_number_alone(batch_size):
    def brightness(seed: int, count: int = 40) -> list[int]:
        return class_conditional().sample(count, STEPS, seed=seed, batch_size=batch_size)[:, 0, 0, 0].tolist()

    whole = class_conditional().sample(40, STEPS, seed=4)[:, 0, 0, 0].tolist()
    assert brightness(4) == whole
    assert brightness(4, 7) == whole[:7]
    assert brightness(5) != whole
    assert len(set(whole)) == 9


def test_labels_may_be_asked_for():
    experts = class_conditional()
    found = experts.sample(5, STEPS, batch_size=2, labels=torch.tensor([8, 0, 4]))
    assert found[:, 0, 3, 3].tolist() == [255, 0, 128, 255, 0]
    twice = experts.predictor(clip=True, condition=torch.tensor([8, 0]))(torch.zeros(4, 1, 8, 8), 3)
    assert twice[:, 0, 0, 0].tolist() == [1, -1, 1, -1]


@pytest.fixture
def groups(tmp_path, tiny_net, make_record):
    net = tiny_net()
    for group, (first, last) in enumerate([(0, 19), (20, 49)]):
        made = make_record(net, first=first, last=last, group=group, groups=2)
        save_model(tmp_path / f"group_{group}", net, made)
    return tmp_path


def test_experts_from_a_folder(groups, tiny_net):
    experts = Ensemble.load(groups)
    assert [expert.record.group for expert in experts.experts] == [0, 1]
    assert torch.equal(experts.sample(3, STEPS), single(tiny_net()).sample(3, STEPS))


def test_a_folder_left_from_more_groups_is_ignored(groups, tiny_net, make_record):
    save_model(groups / "group_2", tiny_net(), make_record(tiny_net(), first=30, last=49, group=2, groups=3))
    assert len(Ensemble.load(str(groups)).experts) == 2


def test_a_group_that_is_missing(groups):
    shutil.rmtree(groups / "group_1")
    with pytest.raises(UserError, match="group_1: missing"):
        Ensemble.load(groups)


def test_a_model_alone_answers_for_all_timesteps(tmp_path, tiny_net, make_record):
    save_model(tmp_path / "slot", tiny_net(), make_record(tiny_net(), first=7, last=9))
    experts = Ensemble.load(tmp_path / "slot", "cpu")
    assert (experts.record.first, experts.record.last) == (0, 49)
    assert torch.equal(experts.sample(2, STEPS), single(tiny_net()).sample(2, STEPS))


@pytest.mark.parametrize(("eta", "batch_size"), [(0.0, 5), (1.0, 2)])
def test_one_network_at_a_time_samples_the_same(groups, eta, batch_size):
    whole, offloaded = (Ensemble.load(groups, resident=resident) for resident in (True, False))
    assert whole.offload is None
    assert offloaded.offload is not None
    expected = whole.sample(5, STEPS, seed=3, batch_size=batch_size, eta=eta)
    assert torch.equal(offloaded.sample(5, STEPS, seed=3, batch_size=batch_size, eta=eta), expected)


@pytest.mark.parametrize("variance", ["posterior", "learned"])
def test_never_more_than_one_network_is_on_the_device(variance):
    """On the CPU too, what is brought to the device is a copy: its weights lie elsewhere than the host's."""
    home: dict[nn.Module, int] = {}
    present: list[list[int]] = []

    class Watched(Answering):
        def forward(self, x_t: Tensor, timesteps: Tensor) -> Any:
            present.append([i for i, net in enumerate(home) if net.unused.data_ptr() != home[net]])
            return SimpleNamespace(sample=torch.cat([x_t, x_t], dim=1))

    home |= {net: net.unused.data_ptr() for net in (Watched(), Watched(), Watched())}
    experts = experts_of([*home], [(0, 9), (10, 30), (31, 49)], spec_of(variance="learned")).experts
    Ensemble(experts, resident=False).sample(4, [49, 31, 30, 12, 9, 0], batch_size=2, eta=1, variance=variance)
    assert present == [[2], [2], [1], [1], [0], [0]] * 2


@pytest.mark.parametrize(("free", "resident"), [(2, False), (4, True)])
def test_all_networks_are_resident_where_twice_their_weights_are_free(groups, monkeypatch, free, resident):
    net, _ = load_model(groups / "group_0")
    weights = 2 * 4 * sum(one.numel() for one in net.parameters())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free * weights // 2, 10**12))
    assert all_fit(weights, torch.device("cuda")) == resident
    assert all_fit(weights, torch.device("cpu"))


def test_latents_are_decoded_and_have_no_bounds():
    """A model that always sees the latent 3, decoded to a twelfth of it: 0.25 of [-1, 1] is 159 of 255."""
    experts = single(Answering(lambda x: 3 * torch.ones_like(x)), "sample", autoencoder="abc")
    found = experts.sample(3, STEPS, clip=False, decode=lambda z: z.repeat(1, 3, 2, 2) / 12)
    assert torch.equal(found, torch.full((3, 3, 16, 16), 159, dtype=torch.uint8))


def latents() -> Ensemble:
    return single(Answering(), "sample", autoencoder="abc")


@pytest.mark.parametrize(
    ("make", "asked", "said"),
    [
        (latents, {"clip": True, "decode": lambda z: z}, "sampling.clip: true bounds pixels, and latents have no"),
        (latents, {"clip": False}, "a: a model of latents is sampled with their autoencoder"),
        (pixels, {"clip": False, "decode": lambda z: z}, "a: a model of pixels has no use for an autoencoder"),
        (pixels, {"eta": 0.5, "solver": "heun"}, "solver 'heun' adds no noise; allowed with eta 0.5: ddim"),
        (pixels, {"labels": torch.tensor([0, 1])}, "an unconditional model takes no labels"),
        (class_conditional, {"labels": torch.tensor([0, 9])}, "labels 0 … 9; a model of 9 classes allows 0 … 8"),
        *(
            (
                lambda: learned(0.0),
                {"eta": eta, "variance": "learned"},
                f"a learned variance is that of eta 1, with noise; asked for with eta {eta:g}",
            )
            for eta in (0.0, 0.5)
        ),
        # uint8 would make black pixels of them, which an FID is computed of like of any others.
        *(
            (
                partial(single, Answering(lambda x, by=by: x * by), "sample"),
                {"clip": False},
                "NaN or infinite",
            )
            for by in (float("nan"), float("inf"))
        ),
    ],
)
def test_what_cannot_be_sampled_is_refused(make, asked, said):
    assert said in refusal(make().sample, 2, STEPS, **asked)
