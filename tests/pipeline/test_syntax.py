"""The digest of a source: equal for every Python, and after edits that change nothing."""

import textwrap
from hashlib import sha256

import pytest

from unequal.code import canonical

#: Something of all that later versions of Python show otherwise in their trees, or cut otherwise.
SAMPLE = (
    """
    import os as system
    from . import beside

    @wrap
    class Thing(Base, metaclass=Meta):
        x: int = 1
    """
    + r"""
    async def f(a, /, b: "int | None" = None, *rest, key=1e-5, **more) -> None:
        global state
        with open(a) as x, (y := b):
            async for i in x:
                yield i, *rest
        try:
            return
        except* (ValueError, TypeError) as error:
            raise KeyError from error
        match a:
            case {"k": [1, *_], **others} if others: pass
            case Point(x=0) | None: ...
        f"{a!r:>{b}} {{}} {a=} {a:}" f"" "plain" f"{b}", u"\N{SNOWMAN}\U0001fae8", b"\x00", -1j, 10**400, 1_000.0, True
        return lambda *, z=(1,): [i async for i in z if i], x[1:2, ::3], not a < b <= 3
    """
)
#: As written by 3.11, 3.12, 3.13 and 3.14.
DIGEST = "4f4753ed65a546be"


def of(source: str) -> str:
    return canonical(textwrap.dedent(source))


def test_a_source_is_written_equally_by_every_python():
    assert sha256(of(SAMPLE).encode()).hexdigest()[:16] == DIGEST


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1  # one"),
        ("x = f(1,\n  2)", "x = f(1, 2)"),
        ("def f():\n    return 1", "def f():\n    'One.'\n    return 1"),
        ("class C:\n    'A.'\n    x = 1", "class C:\n    'B.'\n    x = 1"),
        ("'Module.'\nx = 1", "x = 1"),
        ("'Module.'", ""),
        ("x = 'a' 'b'", 'x = "ab"'),
        ("x = f'{y}' 'ab'", "x = f'{y}a' 'b'"),
        ("x = (1)", "x = 1"),
    ],
)
def test_layout_comments_and_docstrings_say_nothing(before: str, after: str):
    assert of(before) == of(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 'a'", "x = b'a'"),
        ("x = a - b", "x = a + b"),
        ("x = a < b", "x = a <= b"),
        ("x = f(a, b)", "x = f(b, a)"),
        ("x = f'{a}'", "x = f'{b}'"),
        ("x = f'{a:.1f}'", "x = f'{a:.2f}'"),
        ("x = f'{a!r}'", "x = f'{a}'"),
        ("x = {**a}", "x = {a: None}"),
        ("def f(a, *, b): pass", "def f(a, b): pass"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("return None if a else None", "return None if b else None"),
        ("x = [a, b]", "x = [[a, b]]"),
        ("f('doc')", "f('other')"),
    ],
)
def test_what_changes_a_program_is_seen(before: str, after: str):
    assert of(before) != of(after)
