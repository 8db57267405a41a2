"""Every method meets its measured limit, and what it removed can be removed again from the record."""

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from hypothesis import given, settings
from hypothesis import strategies as st

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.models.flops import count_cost
from unequal.models.pruned import replay
from unequal.pruning import fit
from unequal.pruning.fit import fit_to_limit, remove
from unequal.pruning.gradients import accumulate_gradients
from unequal.pruning.units import Unit, importance_of, prunable_units

BuildNet = Callable[..., UNet2DModel]
ATTENTIVE = {"attention_resolutions": (8, 4), "scale_shift": True}


def outputs(net: UNet2DModel) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(torch.linspace(-1, 1, 128).reshape(2, 1, 8, 8), torch.tensor([1, 40])).sample


def units_of(net: UNet2DModel, method: str, prepared: PreparedData, make_record: Callable[..., Any]) -> list[Unit]:
    if method == "taylor":
        accumulate_gradients(net, make_record(net), tensor_of(prepared.train), count=8, seed=0)
    return prunable_units(net, importance_of(method, 0))


@pytest.mark.parametrize(
    ("method", "changes", "ratio"),
    [
        ("magnitude", {}, 0.8),
        ("magnitude", {"heads": 3}, 0.55),
        ("random", ATTENTIVE, 0.7),
        ("random", {"middle_attention": False}, 0.3),
        ("taylor", {"block_out_channels": (8, 16, 16)}, 0.6),
        ("taylor", ATTENTIVE, 0.9),
    ],
)
def test_a_limit_is_met(
    method: str,
    changes: dict[str, Any],
    ratio: float,
    tiny_net: BuildNet,
    prepared: PreparedData,
    make_record: Callable[..., Any],
) -> None:
    net = tiny_net(**changes)
    # As it comes from a model folder.
    net.eval().requires_grad_(False)
    units = units_of(net, method, prepared, make_record)
    before, frozen = copy.deepcopy(net.state_dict()), [parameter.requires_grad for parameter in net.parameters()]
    limit = ratio * count_cost(net).macs
    pruned = fit_to_limit(net, units, limit)

    assert pruned.cost == count_cost(pruned.net)
    assert 0.97 * limit <= pruned.cost.macs <= limit
    assert pruned.net.conv_out.out_channels == net.conv_out.out_channels

    # The unpruned network is left as it is.
    assert [parameter.requires_grad for parameter in net.parameters()] == frozen
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())

    # The record, as JSON carries it, makes the same of a fresh network.
    rebuilt = tiny_net(**changes)
    replay(rebuilt, json.loads(json.dumps(pruned.removals)))
    rebuilt.load_state_dict(pruned.net.state_dict())
    assert torch.equal(outputs(rebuilt), outputs(pruned.net))

    # And it can be trained.
    pruned.net.requires_grad_(True).zero_grad()
    pruned.net(torch.randn(2, 1, 8, 8), torch.tensor([1, 40])).sample.square().mean().backward()
    assert all(parameter.grad is not None for parameter in pruned.net.parameters())
    assert all(parameter.grad.shape == parameter.shape for parameter in pruned.net.parameters())


def test_what_is_kept_keeps_its_weights(tiny_net: BuildNet) -> None:
    net = tiny_net()
    pruned = remove(net, [Unit("down_blocks.0.resnets.0.conv1", (0, 2, 5, 7), 0.0)]).net
    old, new = net.get_submodule("down_blocks.0.resnets.0"), pruned.get_submodule("down_blocks.0.resnets.0")
    kept = [1, 3, 4, 6]
    assert torch.equal(new.conv1.weight, old.conv1.weight[kept])
    assert torch.equal(new.time_emb_proj.weight, old.time_emb_proj.weight[kept])
    assert torch.equal(new.norm2.weight, old.norm2.weight[kept])
    assert torch.equal(new.conv2.weight, old.conv2.weight[:, kept])
    assert new.conv2.out_channels == 8


def test_every_further_unit_lowers_the_cost(tiny_net: BuildNet) -> None:
    net = tiny_net(**ATTENTIVE)
    units = prunable_units(net, importance_of("random", 4))
    costs = [remove(net, units[:count]).cost.macs for count in range(0, len(units) + 1, 6)]
    assert all(later < earlier for earlier, later in pairwise(costs))


@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_a_limit_that_is_met_already(tiny_net: BuildNet, ratio: float) -> None:
    net = tiny_net()
    pruned = fit_to_limit(net, prunable_units(net, importance_of("random", 0)), ratio * count_cost(net).macs)
    assert pruned.removals == []
    assert torch.equal(outputs(pruned.net), outputs(net))


def test_a_limit_out_of_reach(tiny_net: BuildNet) -> None:
    net = tiny_net()
    with pytest.raises(UserError, match=r"^pruning: a limit of 1000 multiply–accumulates is out of reach; .*\d+$"):
        fit_to_limit(net, prunable_units(net, importance_of("magnitude", 0)), 1000)


class Sum:
    """A cost model in the place of a network: each unit saves what its importance says."""

    def __init__(self, total: int) -> None:
        self.total = total

    def without(self, _: Any, units: list[Unit]) -> fit.PrunedNetwork:
        assert len(set(units)) == len(units)
        left = self.total - sum(round(unit.importance) for unit in units)
        return fit.PrunedNetwork(self, [(unit.layer, unit.channels) for unit in units], fit.Cost(left, left, 0))


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.floats(0.0, 1.2))
def test_the_search_takes_no_unit_more_than_needed(savings: list[int], ratio: float) -> None:
    total = 2 * sum(savings)
    units = [Unit(str(i), (i,), saving) for i, saving in enumerate(savings)]
    model, limit = Sum(total), ratio * total
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "remove", model.without)
        if limit < total / 2:
            with pytest.raises(UserError, match="out of reach"):
                fit_to_limit(model, units, limit)
            return
        fitted = fit_to_limit(model, units, limit)
    assert fitted.cost.macs <= limit
    # The least important ones up to the limit, or as many with another in the last one's place, closer to it.
    needed = next(n for n in range(len(units) + 1) if total - sum(savings[:n]) <= limit)
    assert len(fitted.removals) == needed
    assert fitted.cost.macs >= total - sum(savings[:needed])
    assert {layer for layer, _ in fitted.removals} >= {str(i) for i in range(needed - 1)}


def test_a_smaller_last_unit_comes_closer_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [Unit(str(i), (i,), saving) for i, saving in enumerate([10, 50, 20, 5, 30])]
    model = Sum(100)
    monkeypatch.setattr(fit, "remove", model.without)
    # 10 and 50 leave 40, far under the limit of 70; 10 and 20 leave 70.
    fitted = fit_to_limit(model, units, 70)
    assert fitted.cost.macs == 70
    assert [layer for layer, _ in fitted.removals] == ["0", "2"]
