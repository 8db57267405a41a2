"""The digest of a source: equal after edits that change nothing."""

import ast
import textwrap

import pytest

from unequal.code import canonical


def of(source: str) -> str:
    return canonical(ast.parse(textwrap.dedent(source)))


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
def test_layout_comments_and_docstrings_say_nothing(before, after):
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
def test_what_changes_a_program_is_seen(before, after):
    assert of(before) != of(after)
