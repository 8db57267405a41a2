"""Bad answers of a language model, as `prune` gets them: one line, no pruned model, and the key nowhere in a file."""

from pathlib import Path

import pytest
from chat_server import answer, closed_port, error, serving
from refusals import check_refused
from small_inputs import GROUPS, PROXY, write_settings

from stages import prune
from unequal.runtime.files import write_json

KEY = "sk-very-secret-1234"
OPTIONS = ("--method", "decided", "--group", "0")
OUTPUTS = ("artifacts/pruned/decided/group_0", "results/metrics/prune_decided_group_0.json")
DECIDED = PROXY | {"finetuning": {"images": 8, "batch_size": 4, "lr": 1.0e-3}}
LLM = {"kind": "llm", "model": "tiny", "api_key_env": "UNEQUAL_K", "attempts": 1}


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


def asked(url: str) -> None:
    write_settings(pruning={"decided": DECIDED | {"decider": LLM | {"base_url": url}}})


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer('{"schemes": []}'), "no sound answer in 1 attempts, at last: schemes: List should have at least 2"),
        (error(401, f"Incorrect API key {KEY}"), "the key in $UNEQUAL_K is refused, status 401 ("),
    ],
)
def test_a_bad_answer_prunes_nothing(reply, said):
    with serving([reply]) as chat:
        asked(chat.url)
        check_refused(prune, *OPTIONS, said=said, outputs=OUTPUTS)


def test_nobody_answers():
    asked(closed_port())
    check_refused(prune, *OPTIONS, said=": no connection (", outputs=OUTPUTS)
