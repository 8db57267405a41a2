"""Prompt for a language model, from the template `prompt.md`."""

import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from unequal.experts.anatomy import Anatomy, Unit, blocks_of
from unequal.experts.bank import Candidate
from unequal.experts.evaluator import Evaluator
from unequal.models.pruned import prunable_kind_of
from unequal.models.spec import Space
from unequal.timesteps.partition import Interleaved, TimestepSet


def prompt_of(evaluator: Evaluator, bank: Sequence[Candidate], count: int) -> str:
    """The prompt of a round: network, limit, timesteps, and the schemes that have been tried."""
    target, anatomy = evaluator.target, evaluator.anatomy
    blocks = blocks_of(evaluator.ranking)
    macs, finetuning = target.record.macs, evaluator.finetuning
    template = Template(files("unequal.experts").joinpath("prompt.md").read_text(encoding="utf-8"))
    return template.substitute(
        inputs=described_inputs(target.record.spec.space),
        network=prunable_kind_of(anatomy.net).description,
        timesteps=described_timesteps(target.range),
        last_of_all=target.record.spec.timesteps - 1,
        limit=int(target.limit_macs),
        macs=macs,
        share=f"{target.limit_macs / macs:.3f}",
        blocks=lines({"block": block, "layers": layers_of(anatomy, units)} for block, units in blocks.items()),
        finetuning=f", after a fine-tuning of {finetuning.images} images" if finetuning else "",
        bank=lines(map(described, bank)) or "None yet.",
        count=count,
        count_of_blocks=len(blocks),
        example=json.dumps(dict.fromkeys(blocks, 0.3)),
    )


def described_timesteps(chosen: TimestepSet) -> str:
    """Timesteps in words."""
    words = f"{chosen.first} to {chosen.last}"
    return f"{words}, one in {chosen.stride}," if isinstance(chosen, Interleaved) else words


def described_inputs(space: Space) -> str:
    """Describe in words what the model works on."""
    channels, size, _ = space.shape
    kind = "images" if space.autoencoder is None else "latents of images"
    return f"{kind} of {channels} channels and {size} x {size} positions"


def lines(items: Any) -> str:
    """Facts as JSON, one a line."""
    return "\n".join(json.dumps(item) for item in items)


def layers_of(anatomy: Anatomy, units: Sequence[Unit]) -> list[dict[str, Any]]:
    """The prunable layers of a block, by its units."""
    return [
        layer_facts(anatomy, index, [unit for unit in units if unit.layer == name])
        for name, index in anatomy.index.items()
        if any(unit.layer == name for unit in units)
    ]


def layer_facts(anatomy: Anatomy, index: int, units: Sequence[Unit]) -> dict[str, Any]:
    """Facts of one layer, and the savings by one of its units."""
    nothing = np.zeros(len(anatomy.layers), dtype=np.int64)
    one = nothing.copy()
    one[index] = len(units[0].channels)
    importance = [unit.importance for unit in units]
    return {
        "layer": anatomy.layers[index].name,
        "channels": anatomy.layers[index].channels,
        "units": len(units),
        "weights_a_unit": anatomy.weights(nothing) - anatomy.weights(one),
        "macs_a_unit": anatomy.macs(nothing) - anatomy.macs(one),
        "importance": [round(float(value), 3) for value in np.quantile(importance, [0, 0.5, 1])],
    }


def described(candidate: Candidate) -> dict[str, Any]:
    """A scheme of the bank for the prompt."""
    return {
        "round": candidate.round,
        "ratios": {block: round(ratio, 3) for block, ratio in candidate.scheme.items()},
        "macs": candidate.macs,
        "loss": float(f"{candidate.loss:.5g}"),
    }
