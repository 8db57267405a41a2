"""DiT's transformer: published sizes, what it computes, and how it begins."""

from collections.abc import Callable

import pytest
import torch
from dit_reference import answer
from specs import NOTHING, class_labels, dropped_labels, spec_of

from unequal.errors import UserError
from unequal.models.backbones.backbone import build_network, count_cost, layer_macs
from unequal.models.backbones.dit.network import DiffusionTransformer
from unequal.models.conditions import condition_of
from unequal.models.spec import ModelSpec, Space
from unequal.settings.network import DiT
from unequal.settings.schedule import BetaSchedule
from unequal.training.initialisation import reinitialise

BuildDiT = Callable
#: Depth, width, heads; parameters with 2C outputs, 1000 classes and patches of 2, positions included; 10⁹ multiply–
#: accumulates at 32 × 32 × 4 with patches of 2, 4 and 8, attention's products included; their share at 2. All by
#: 2212.09748 and its code.
PUBLISHED = {
    "S": ((12, 384, 6), 32_963_360, (6.06, 1.41, 0.36), 0.10),
    "B": ((12, 768, 12), 130_512_416, (23.0, 5.56, 1.42), 0.05),
    "L": ((24, 1024, 16), 458_102_816, (80.7, 19.7, 5.01), 0.04),
    "XL": ((28, 1152, 16), 675_129_632, (118.6, 29.0, 7.39), 0.04),
}


def published(size: str, patch: int, channels: int = 4) -> DiffusionTransformer:
    """A published network, without memory for its weights."""
    depth, width, heads = PUBLISHED[size][0]
    sizes = {"depth": depth, "width": width, "heads": heads, "patch": patch}
    network = DiT(kind="dit", pretrained=None, variance="learned", condition=dropped_labels(1000), **sizes)
    schedule, space = BetaSchedule(name="linear", timesteps=1000), Space(channels=channels, size=32)
    spec = ModelSpec.of(network, schedule, "epsilon", space)
    with torch.device("meta"):
        net = build_network(network, spec)
    assert isinstance(net, DiffusionTransformer)
    return net


@pytest.mark.parametrize("size", ["S", *(pytest.param(size, marks=pytest.mark.thorough) for size in ("B", "L", "XL"))])
def test_parameters_and_cost_are_the_published_ones(size):
    _, parameters, macs, share = PUBLISHED[size]
    for patch, expected in zip((2, 4, 8), macs, strict=True):
        net = published(size, patch)
        cost = count_cost(net)
        assert layer_macs(net) == cost.macs
        assert cost.macs_with_attention / 1e9 == pytest.approx(expected, rel=0.005, abs=0.005)
        _, width, _ = PUBLISHED[size][0]
        depth = len(net.blocks)
        # Each of the two products of N tokens with N others takes N²·d.
        assert cost.macs_with_attention - cost.macs == depth * 2 * (32 // patch) ** 4 * width
        if patch == 2:
            assert cost.parameters + net.pos_embed.numel() == parameters
            assert 1 - cost.macs / cost.macs_with_attention == pytest.approx(share, abs=0.005)
            in_pixels = count_cost(published(size, patch, channels=3)).macs_with_attention
            assert in_pixels == pytest.approx(cost.macs_with_attention, rel=0.01)


@pytest.mark.parametrize("condition", [NOTHING, class_labels(2), dropped_labels(2)], ids=lambda one: one.kind)
def test_it_computes_what_the_paper_describes(tiny_dit, condition):
    net = tiny_dit(condition=condition)
    x, t = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 7, 49])
    y = None if (classes := condition_of(condition).embedded_classes) is None else torch.tensor([0, 1, classes - 1])
    inputs = (x, t) if y is None else (x, t, y)
    found, expected = net(*inputs).sample, answer(net.state_dict(), x, t, y, heads=2)
    assert float(expected.std()) > 0.1
    assert torch.allclose(found.double(), expected, atol=1e-5)


def test_it_begins_as_the_identity_that_answers_nothing(dit_settings):
    torch.manual_seed(0)
    net = build_network(dit_settings(), spec_of())
    x, t = torch.randn(2, 1, 8, 8), torch.tensor([3, 40])
    assert not net(x, t).sample.any()
    tokens = torch.randn(2, 16, 16)
    for block in net.blocks:
        assert torch.equal(block(tokens, torch.randn(2, 16)), tokens)
    # 2212.09748's code: Xavier's uniform variance where nothing is zero, and 0.02 where the timestep is embedded.
    drawn = build_network(dit_settings(width=256, heads=4), spec_of())
    assert drawn.blocks[0].mlp.fc1.weight.std().item() == pytest.approx((2 / (256 + 1024)) ** 0.5, rel=0.02)
    assert drawn.t_embedder.mlp[2].weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert drawn.x_embedder.proj.weight.std().item() == pytest.approx((2 / (4 + 256)) ** 0.5, rel=0.1)


def test_drawn_anew_it_begins_in_the_same_way(tiny_dit):
    net = tiny_dit()
    reinitialise(net)
    assert not net(torch.randn(1, 1, 8, 8), torch.tensor([3])).sample.any()
    assert net.blocks[1].attn.qkv.weight.std() > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"patch": 3}, "network.patch: 3 does not divide the 8 pixels that the network sees"),
        ({"heads": 3}, "heads: 3 do not divide the width 16"),
        ({"width": 18}, "width: 18 is no multiple of 4, as sine-cosine positions need"),
        ({"trained_by": "sit"}, "trained_by: has no meaning for pretrained 'None'"),
        ({"pretrained": "a.pt"}, "trained_by: needed by pretrained 'a.pt'"),
    ],
)
def test_settings_that_make_no_network(dit_settings, changes, said):
    with pytest.raises((UserError, ValueError), match=said):
        build_network(dit_settings(**changes), spec_of())
