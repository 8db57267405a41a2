"""A whole search by conversation, for both backbones, with a server that answers as real ones do."""

import json
from dataclasses import replace
from typing import Any

import pytest
from chat_server import Reply, answer, serving
from search_place import MAGNITUDE, SEARCH, Here
from torch import nn

from unequal.experts.anatomy import Anatomy, blocks_of
from unequal.experts.bank import BANK
from unequal.experts.evaluator import Evaluator
from unequal.experts.importance import ranked
from unequal.experts.llm import RequestLog
from unequal.experts.prompt import prompt_of
from unequal.experts.proxy import decide
from unequal.settings.pruning import Proxy

#: Entries with a ratio of their own, in order.
BLOCKS = {
    "unet2d": ["conv_in", "down_blocks.0", "down_blocks.1", "mid_block", "up_blocks.0", "up_blocks.1"],
    "dit": ["blocks.0", "blocks.1", "blocks.2", "depth"],
}


@pytest.fixture(params=list(BLOCKS))
def kind(request):
    return request.param


@pytest.fixture
def target(kind, tiny_net, tiny_dit, make_target):
    net: nn.Module = tiny_net() if kind == "unet2d" else tiny_dit(depth=3, heads=4)
    return make_target(net.eval(), 0.6)


def schemes(kind: str, *ratios: float) -> str:
    return json.dumps({"schemes": [dict.fromkeys(BLOCKS[kind], ratio) for ratio in ratios]})


def reply(text: str | None, **changes: Any) -> Reply:
    """An answer whose tokens are counted, with other fields of its choice."""
    whole = json.loads(answer(text).body) | {"usage": {"prompt_tokens": 1500, "completion_tokens": 200}}
    choice = whole["choices"][0]
    choice["message"] |= changes.pop("message", {})
    return Reply(body=json.dumps(whole | {"choices": [choice | changes]}).encode())


def conversation(kind: str) -> list[Reply]:
    """Two rounds: what goes wrong in each is put right after a complaint."""
    draft, first, second = schemes(kind, 0.9, 0.9), schemes(kind, 0.2, 0.4), schemes(kind, 0.6, 0.8)
    return [
        reply(None, message={"refusal": "I'm sorry, I can't assist with that."}),
        reply(f"<think>Say {draft}; no, keep the middle.</think>\n\nSure!\n```JSON\n{first}\n```\nShall I go on?"),
        reply(second[: len(second) // 2], finish_reason="length"),
        reply(second[: len(second) // 2]),
        reply(None, message={"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": second}]}),
    ]


def test_a_search_by_conversation_is_whole_and_is_replayed(here, kind, target):
    anatomy = Anatomy(target.net)
    with serving(conversation(kind)) as chat:
        decider = {
            **{"kind": "llm", "model": "m", "base_url": chat.url, "api_key_env": None},
            "usd_per_million_tokens": {"prompt": 2, "completion": 10},
        }
        method = Proxy.model_validate(SEARCH | {"decider": decider})
        decision = decide(here, method, target, anatomy)
    assert [line["proposed"][BLOCKS[kind][0]] for line in here.lines] == [0.2, 0.4, 0.6, 0.8]
    outcomes = [one.outcome for one in RequestLog(here.work).requests]
    assert outcomes == [
        "the model declined: I'm sorry, I can't assist with that.",
        "taken",
        "it was cut short (finish_reason: length)",
        next(said for said in outcomes if said.startswith("Invalid JSON: EOF while parsing")),
        "taken",
    ]
    costs = decision.figures["language_model"]
    assert (costs["rounds"], costs["requests"]) == (2, 5)
    assert (costs["prompt_tokens_a_round"], costs["completion_tokens_a_round"]) == (5 * 1500 / 2, 5 * 200 / 2)
    assert costs["usd_a_round"] == pytest.approx(5 * (1500 * 2 + 200 * 10) / 1e6 / 2) and costs["seconds_a_round"] > 0
    # Each complaint is sent with the next request, and the bank with the next round.
    assert ["was refused" in prompt for prompt in chat.prompts] == [False, True, False, True, True]
    assert [prompt.count('"loss"') for prompt in chat.prompts] == [0, 0, 2, 2, 2]
    decision.bank.publish(here.work)
    (here.work / "again").mkdir()
    again = Here(here.work / "again", here.runtime)
    replayed = decide(again, method, target, Anatomy(target.net), here.work / BANK)
    assert again.lines == here.lines
    assert replayed.pruned.removals == decision.pruned.removals
    assert "language_model" not in replayed.figures


@pytest.mark.parametrize("autoencoder", [None, "0123"])
def test_the_prompt_describes_the_network(kind, target, runtime, autoencoder):
    spec = target.record.spec
    space = spec.space.model_copy(update={"autoencoder": autoencoder})
    record = target.record.model_copy(update={"spec": spec.model_copy(update={"space": space})})
    anatomy = Anatomy(target.net)
    ranking = ranked(MAGNITUDE, target, anatomy)
    evaluator = Evaluator(replace(target, record=record), anatomy, ranking, 4, None, runtime)
    prompt = " ".join(prompt_of(evaluator, [], 2).split())
    assert list(blocks_of(ranking)) == BLOCKS[kind]
    what = "images" if autoencoder is None else "latents of images"
    assert f"removes noise from {what} of 1 channels and 8 x 8 positions." in prompt
    depth = "depth, is no block but the number of blocks" in prompt
    assert ("It is a U-Net" in prompt, "It is a transformer (DiT)" in prompt, depth) == (
        (True, False, False) if kind == "unet2d" else (False, True, True)
    )
    assert ("norm group" in prompt) == (kind == "unet2d")
