"""A scheme meets the limit, its loss is that of the network it makes, and fine-tuning lowers it."""

from dataclasses import replace

import pytest
import torch
from one_line import refusal

from unequal.experts.anatomy import blocks_of
from unequal.settings.pruning import Finetuning


def test_the_loss_is_that_of_the_network_alone(evaluator, tmp_path):
    """A network that answers 0 has a loss of E‖ε‖²/D = 1, whatever else it is."""
    net = evaluator.prune(dict.fromkeys(blocks_of(evaluator.ranking), 0.5)).net
    with torch.no_grad():
        net.conv_out.weight.zero_()
        net.conv_out.bias.zero_()
    many = replace(evaluator, images=512)
    # The mean of 512·64 squares of normal numbers: five standard deviations are 5·(2/32768)^½.
    assert many.loss(net, tmp_path) == pytest.approx(1, abs=0.04)
    assert evaluator.loss(net, tmp_path) == evaluator.loss(net, tmp_path)


def test_fine_tuning_lowers_the_loss_and_counts_in_the_cost(evaluator, tmp_path):
    tuned = replace(evaluator, images=64, finetuning=Finetuning(images=64, batch_size=8, lr=3e-3))
    plain = replace(evaluator, images=64)
    scheme = dict.fromkeys(blocks_of(evaluator.ranking), 0.5)
    before = plain.loss(evaluator.prune(scheme).net, tmp_path / "a")
    after = tuned.loss(evaluator.prune(scheme).net, tmp_path / "b")
    assert after < before
    assert (plain.flops(1000), tuned.flops(1000)) == (64_000, 64_000 + 3 * 64_000)


def test_a_loss_that_is_no_number(evaluator, tmp_path):
    net = evaluator.prune(dict.fromkeys(blocks_of(evaluator.ranking), 0.5)).net
    with torch.no_grad():
        net.conv_out.bias.fill_(float("nan"))
    assert (
        refusal(evaluator.loss, net, tmp_path) == "pruning: the loss of a pruned network is nan; is the base's finite?"
    )
