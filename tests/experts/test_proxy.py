"""The search as a whole: what it tries and keeps, how it is stopped and goes on, and how a recorded one is replayed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_server import Chat, Reply, answer, error, serving
from diffusers.models.unets.unet_2d import UNet2DModel
from one_line import refusal
from search_place import MAGNITUDE, SEARCH, TAYLOR, Here
from tensors import equal

from unequal.experts.anatomy import Anatomy, blocks_of
from unequal.experts.bank import BANK, Bank
from unequal.experts.evaluator import FRESH, Evaluator
from unequal.experts.importance import ranked
from unequal.experts.proxy import Decision, decide
from unequal.randomness import Stream, torch_seed
from unequal.settings.pruning import Proxy

pytestmark = pytest.mark.slow

SEARCH = SEARCH | {"ranking": TAYLOR, "start": (MAGNITUDE, TAYLOR)}


def elsewhere(here: Here, name: str) -> Here:
    (here.work / name).mkdir()
    return Here(here.work / name, here.runtime)


def search(here: Here, evaluator: Evaluator, recorded: Path | None = None, **changes: Any) -> Decision:
    return decide(here, Proxy.model_validate(SEARCH | changes), evaluator.target, evaluator.anatomy, recorded)


def llm(chat: Chat, **changes: Any) -> dict[str, Any]:
    settings = {"kind": "llm", "model": "tiny", "base_url": chat.url, "api_key_env": None}
    return settings | {"attempts": 2} | changes


def sound(evaluator: Evaluator, *ratios: float) -> Reply:
    """Schemes that spare the middle, with these ratios elsewhere."""
    found = [dict.fromkeys(blocks_of(evaluator.ranking), ratio) | {"mid_block": 0.0} for ratio in ratios]
    return answer(json.dumps({"schemes": found}))


def test_all_candidates_meet_the_limit_and_the_best_is_kept(here, evaluator):
    found = search(here, evaluator)
    lines, limit = here.lines, evaluator.target.limit_macs
    assert [(line["round"], line["candidate"], line["proposer"]) for line in lines] == [
        *((0, 0, "magnitude"), (0, 1, "taylor"), (1, 0, "tpe"), (1, 1, "tpe"), (2, 0, "tpe"), (2, 1, "tpe"))
    ]
    assert all(0.97 * limit <= line["macs"] <= limit == line["limit_macs"] for line in lines)
    best = min(lines, key=lambda line: line["loss"])
    assert found.pruned.cost.macs == best["macs"]
    # Its loss is measured again from the network that is kept.
    ranking = ranked(Proxy.model_validate(SEARCH).ranking, evaluator.target, evaluator.anatomy)
    again = replace(evaluator, ranking=ranking)
    assert again.loss(found.pruned.net, here.work) == best["loss"]
    assert {name: best[name] for name in ("proposer", "round", "candidate", "loss")}.items() <= found.figures.items()
    assert (found.figures["candidates"], found.figures["rounds"], found.ended) == (6, 2, None)
    assert found.flops == sum(8 * line["macs"] for line in lines)
    assert [point["best_loss"] for point in here.logged] == [
        min(line["loss"] for line in lines[: i + 1]) for i in range(6)
    ]


def test_what_is_chosen_is_scored_on_draws_that_chose_nothing(here, evaluator):
    decided = search(here, evaluator, rounds=0, start=(MAGNITUDE,))
    figures, net = decided.figures, decided.pruned.net
    target = replace(evaluator.target, net=net)
    batch = target.source("group", 8, torch_seed(target.seed, Stream.PRUNING, FRESH)).draw(0)
    with torch.no_grad():
        expected = float(target.objective()(target.denoiser_of(batch), batch).weighted.mean())
    assert figures["fresh_loss"] == pytest.approx(expected, rel=1e-5)
    assert figures["fresh_loss"] != figures["loss"]
    assert not any(name.startswith("control") for name in figures)


@pytest.mark.thorough
def test_a_search_is_compared_with_as_many_random_schemes(here, evaluator):
    figures = search(here, evaluator, control="random").figures
    drawn = Bank(here.work / "control").candidates
    assert len(drawn) == figures["candidates"] == 6
    assert {candidate.proposer for candidate in drawn} == {"random"}
    assert figures["control_loss"] == min(candidate.loss for candidate in drawn)
    assert figures["gain_over_control"] == figures["control_fresh_loss"] - figures["fresh_loss"]
    # It costs the search nothing and changes nothing of it.
    alone = search(elsewhere(here, "alone"), evaluator).figures
    assert {name: value for name, value in figures.items() if "control" not in name} == alone


@pytest.mark.thorough
def test_a_search_is_a_function_of_its_seed(here, evaluator):
    banks = []
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        place = elsewhere(here, name)
        search(place, replace(evaluator, target=replace(evaluator.target, seed=seed)), start=())
        banks.append(place.lines)
    assert banks[0] == banks[1]
    assert not any(a["proposed"] == b["proposed"] for a, b in zip(banks[0], banks[2], strict=True))


def stop_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the process at the trial of that number."""
    counted, whole = iter(range(100)), Evaluator.loss

    def loss(self: Evaluator, net: UNet2DModel, work: Path, *draws: int) -> float:
        if next(counted) == number:
            raise KeyboardInterrupt
        return whole(self, net, work, *draws)

    monkeypatch.setattr(Evaluator, "loss", loss)


def test_a_search_that_was_killed_goes_on(here, evaluator, monkeypatch):
    """At its first trial, among those that it starts with, and within a round."""
    whole, stopped = elsewhere(here, "whole"), elsewhere(here, "stopped")
    decided = search(whole, evaluator)
    for number, made in ((0, 0), (1, 1), (2, 3)):
        stop_at(number, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            search(stopped, evaluator)
        assert (stopped.lines if made else []) == whole.lines[:made]
        monkeypatch.undo()
    assert search(stopped, evaluator).figures == decided.figures
    assert stopped.lines == whole.lines


def test_a_language_model_is_asked_once_a_round_whatever_happens(here, evaluator, monkeypatch):
    with serving([sound(evaluator, 0.6, 0.9), sound(evaluator, 0.4, 0.5)]) as chat:
        stop_at(3, monkeypatch)  # within its first round
        with pytest.raises(KeyboardInterrupt):
            search(here, evaluator, decider=llm(chat))
        monkeypatch.undo()
        found = search(here, evaluator, decider=llm(chat))
    assert len(chat.requests) == 2
    assert [line["proposer"] for line in here.lines[2:]] == ["llm tiny"] * 4
    assert found.figures["rounds"] == 2
    # It gets all earlier candidates.
    assert [prompt.count('"loss"') for prompt in chat.prompts] == [2, 4]
    assert all(line["scheme"]["mid_block"] == 0 for line in here.lines[2:])


@pytest.mark.parametrize(
    ("unsound", "said"),
    [(answer("no"), "no sound answer in 2 attempts, at last: "), (error(503, "busy"), "status 503 (")],
)
def test_what_the_model_does_not_answer_ends_the_search_with_the_best_so_far(here, evaluator, capsys, unsound, said):
    with serving([sound(evaluator, 0.2, 0.9), unsound, unsound]) as chat:
        found = search(here, evaluator, decider=llm(chat))
    assert [line["round"] for line in here.lines] == [0, 0, 1, 1]
    best = min(here.lines, key=lambda line: line["loss"])
    assert found.pruned.cost.macs == best["macs"]
    assert found.figures["ended"].startswith(f"pruning: {chat.url}: {said}")
    printed = capsys.readouterr().err
    going_on = f"going on with the best scheme so far, candidate {best['candidate']} of round {best['round']}"
    assert printed == f"{found.ended}; {going_on}\n"


def test_what_has_to_be_mended_between_two_rounds_costs_no_candidate(here, evaluator):
    """A key that is refused, and an endpoint that goes down."""
    with serving([sound(evaluator, 0.2, 0.9), error(401, "wrong key")]) as chat:
        assert "status 401" in refusal(search, here, evaluator, decider=llm(chat))
    first = here.lines
    assert [line["round"] for line in first] == [0, 0, 1, 1]
    assert f"{chat.url}: no connection" in refusal(search, here, evaluator, decider=llm(chat))
    assert here.lines == first
    with serving([sound(evaluator, 0.4, 0.5)]) as again:
        search(here, evaluator, decider=llm(again))
    assert len(again.requests) == 1
    assert here.lines[:4] == first
    assert [line["round"] for line in here.lines] == [0, 0, 1, 1, 2, 2]


def test_without_a_scheme_so_far_there_is_none_to_go_on_with(here, evaluator):
    with serving([answer("no")]) as chat:
        assert "no sound answer in 2 attempts" in refusal(search, here, evaluator, decider=llm(chat), start=())


def test_a_recorded_search_is_replayed_exactly_without_a_network(here, evaluator):
    with serving([sound(evaluator, 0.2, 0.9), sound(evaluator, 0.4, 0.5)]) as chat:
        recorded = search(here, evaluator, decider=llm(chat))
        settings = llm(chat, api_key_env="UNEQUAL_NO_SUCH_KEY")
    recorded.bank.publish(here.work)
    place = elsewhere(here, "replay")
    replayed = search(place, evaluator, here.work / BANK, decider=settings)
    assert place.lines == here.lines
    asked = recorded.figures
    assert asked.pop("language_model")["requests"] == 2
    assert replayed.figures == asked
    assert replayed.pruned.removals == recorded.pruned.removals
    assert equal(replayed.pruned.net.state_dict(), recorded.pruned.net.state_dict())


def test_a_recording_of_something_else_is_refused(here, evaluator, tiny_net, make_target):
    search(here, evaluator, rounds=0, start=(MAGNITUDE,)).bank.publish(here.work)
    limit = evaluator.target.limit_macs

    def other(**changes: Any) -> Evaluator:
        net = tiny_net(**changes).eval()
        return replace(evaluator, target=replace(make_target(net), limit_macs=limit), anatomy=Anatomy(net))

    for number, (changed, complaint) in enumerate(
        (
            (replace(evaluator, target=replace(evaluator.target, limit_macs=1.1 * limit)), "was made for a limit of"),
            (other(block_out_channels=(8, 16, 16)), "is of another network: its blocks are conv_in, down_blocks.0"),
            (other(attention_resolutions=(8,)), "is of another model: it had"),
        )
    ):
        said = refusal(search, elsewhere(here, str(number)), changed, here.work / BANK)
        assert said.startswith(f"{here.work / BANK}: candidate 0 of round 0 {complaint}")
