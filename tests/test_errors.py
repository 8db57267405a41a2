"""Whatever a message quotes, a terminal sees one line and no command."""

import pytest

from unequal.errors import UserError, first_line, say

#: Clears the screen, colours, a second line by several signs, text that runs backwards.
HOSTILE = "a\x1b[2J\x9b31m\nError: forged\r\u2028\u202e.png"


def test_a_refusal_is_one_line_whatever_it_quotes():
    line = str(UserError(f"{HOSTILE}: no image"))
    assert line.isprintable()
    assert line == r"a\x1b[2J\x9b31m Error: forged \u202e.png: no image"


def test_what_is_printed_keeps_its_lines(capsys):
    say(f"read {HOSTILE}", "  two   columns")
    say("loss\t0.1", err=True)
    printed = capsys.readouterr()
    assert printed.out == "read a\\x1b[2J\\x9b31m\\nError: forged\\r\\u2028\\u202e.png\n  two   columns\n"
    assert printed.err == "loss    0.1\n"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("No file a.safetensors. Load it with `use_safetensors=False` instead.", "No file a.safetensors."),
        ("It is a pickle; set weights_only=False if you trust it.\nMore", "It is a pickle;"),
        ("Pass trust_remote_code=True.", "OSError"),
        ("Error(s) in loading:\n\tsize mismatch for a.weight", "Error(s) in loading: size mismatch for a.weight"),
        ("", "OSError"),
    ],
)
def test_advice_to_be_unsafe_is_not_passed_on(message, shown):
    assert first_line(OSError(message)) == shown
