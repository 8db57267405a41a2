"""Bad answers of a language model, as `prune` gets them: one line, no pruned model, and the key nowhere in a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, answer, closed_port, error, serving
from refusals import check_refused
from small_inputs import GROUPS, PROXY, write_settings

from stages import prune
from unequal.files import write_json

KEY = "sk-very-secret-1234"
BLOCKS = ["conv_in", "down_blocks.0", "down_blocks.1", "mid_block", "up_blocks.0", "up_blocks.1"]
SCHEME = dict.fromkeys(BLOCKS, 0.5)
OPTIONS = ("--method", "decided", "--group", "0")
OUTPUTS = ("artifacts/pruned/decided/group_0", "results/metrics/prune_decided_group_0.json")
DECIDED = PROXY | {"finetuning": {"images": 8, "batch_size": 4, "lr": 1.0e-3}}
LLM = {"kind": "llm", "model": "tiny", "api_key_env": "UNEQUAL_K", "attempts": 1, "backoff_s": 0.01}


@pytest.fixture(autouse=True)
def _key(small_inputs, monkeypatch):
    """A key in the environment, no proxy, and a limit that asks for pruning."""
    monkeypatch.setenv("UNEQUAL_K", KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    groups = [GROUPS["groups"][0] | {"limit_ratio": 0.7}, GROUPS["groups"][1]]
    write_json(Path("artifacts/groups.json"), GROUPS | {"groups": groups})
    yield
    assert not [file for file in Path().rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


def schemes(*found: Any, **more: Any) -> Reply:
    return answer(json.dumps({"schemes": found} | more))


def scheme(**changes: Any) -> Reply:
    """Two schemes, with other ratios in the first one."""
    return schemes(SCHEME | changes, SCHEME)


SOUND = json.dumps({"schemes": [SCHEME, SCHEME]})
UNSOUND = "no sound answer in 1 attempts, at last: "

ANSWERS: dict[str, tuple[Reply, str]] = {
    "one scheme": (schemes(SCHEME), UNSOUND + "schemes: List should have at least 2 items"),
    "another key beside": (schemes(SCHEME, SCHEME, why="so"), UNSOUND + "why: Extra inputs are not permitted"),
    "a block too few": (schemes({"conv_in": 0.5}, SCHEME), UNSOUND + "schemes.0.down_blocks"),
    "percents": (scheme(conv_in=50), UNSOUND + "schemes.0.conv_in: Input should be less than or equal to 1"),
    "less than nothing": (scheme(conv_in=-0.1), UNSOUND + "schemes.0.conv_in: Input should be greater than or equal"),
    "beyond floats": (answer(SOUND.replace("0.5", "1e999", 1)), UNSOUND + "schemes.0.conv_in: Input should be"),
    "a ratio twice": (
        answer(SOUND.replace('"conv_in": 0.5', '"conv_in": 0.1, "conv_in": 0.9')),
        UNSOUND + "key 'conv_in' stands twice in one object",
    ),
    "no completion": (Reply(body=b"[]"), UNSOUND + "it is no chat completion, "),
    "bytes that are no text": (Reply(body=b"\xff\xfe\x00{"), UNSOUND + "it is no chat completion, Invalid JSON"),
    "text that is no UTF-8": (
        Reply(body=answer("é").body.replace(b"\\u00e9", b"\xe9")), UNSOUND + "it is no chat completion, "
    ),
    "half a character": (Reply(body=answer("x").body.replace(b'"x"', b'"\\ud800"')), UNSOUND),
    "broken off": (Reply(body=answer(SOUND).body, cut=True), UNSOUND + "it broke off"),
    "a wrong key": (error(401, f"Incorrect API key {KEY}"), "the key in $UNEQUAL_K is refused, status 401 (Incorrect"),
    "no money": (error(429, "pay", "insufficient_quota"), ": status 429 (pay)"),
    "a redirection": (Reply(302, b"there", header=("Location", "/v2")), ": status 302 (there)"),
}  # fmt: skip


def asked(url: str) -> None:
    write_settings(pruning={"decided": DECIDED | {"decider": LLM | {"base_url": url}}})


@pytest.mark.parametrize("bad", ANSWERS)
def test_a_bad_answer_prunes_nothing(bad):
    reply, said = ANSWERS[bad]
    with serving([reply]) as chat:
        asked(chat.url)
        check_refused(prune, *OPTIONS, said=said, outputs=OUTPUTS)


def test_nobody_answers():
    asked(closed_port())
    check_refused(prune, *OPTIONS, said=": no connection (", outputs=OUTPUTS)
