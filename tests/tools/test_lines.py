"""Which changes of the code a run has executed."""

import textwrap
from pathlib import Path

import pytest

from unequal.tools.lines import Side, unentered, unexecuted

OLD = """
    import math

    def area(r):
        '''Of a circle.'''
        if r < 0:
            raise OverflowError(r)
        return math.pi * r**2

    class Square:
        def area(self, a):
            # Its side squared.
            return a * a
    """


def complaints(tmp_path: Path, old: str, new: str, before: set[int], after: set[int]) -> list[str]:
    """Complaints about a module that has changed, where these of its lines were executed."""
    return unexecuted(*both(tmp_path, old, new, before, after))


def both(tmp_path: Path, old: str, new: str, before: set[int], after: set[int]) -> list[Side]:
    """A module before and after it has changed, of which these lines were executed."""
    sides = []
    for name, text, lines in (("old", old, before), ("new", new, after)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.py").write_text(textwrap.dedent(text).lstrip())
        sides.append(Side(tmp_path / name, {"m.py"}, {"m.py": lines}))
    return sides


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'''Of a circle.'''", "'''Of a disc.'''"),
        ("# Its side squared.", "# Squared."),
        ("math.pi * r**2", "(math.pi * r**2)"),
        ("import math\n\n", "import math\n\n\n"),
    ],
)
def test_layout_comments_and_docstrings_need_not_be_executed(tmp_path: Path, old: str, new: str):
    assert complaints(tmp_path, OLD, OLD.replace(old, new), set(), set()) == []


def test_what_has_moved_word_for_word_need_not_be_executed(tmp_path: Path):
    head, _, square = OLD.partition("    class")
    moved = "    class" + square + head.replace("\n    import math\n", "")
    assert complaints(tmp_path, head + "    class" + square, "    import math\n" + moved, {1, 3, 9, 10}, {1}) == []


def test_a_changed_formula_must_be_executed_before_and_after(tmp_path: Path):
    new = OLD.replace("r**2", "r * r")
    assert complaints(tmp_path, OLD, new, {7}, {7}) == []


def test_where_it_was_not_it_is_named(tmp_path: Path):
    new = OLD.replace("r**2", "r * r")
    assert complaints(tmp_path, OLD, new, {3, 5}, {3, 5}) == [
        "before, m.py:7: return math.pi * r**2",
        "m.py:7: return math.pi * r * r",
    ]


@pytest.mark.parametrize(
    "new", [OLD.replace("r**2", "r * r"), OLD.replace("if r < 0", "if r > 9: return 0\n        if r < 0")]
)
def test_a_changed_function_that_was_not_entered_is_named_by_itself(tmp_path: Path, new: str):
    sides = both(tmp_path, OLD, new, {1, 3, 9, 10}, {1, 3, 9, 10})
    assert unexecuted(*sides) == []
    assert unentered(*sides) == ["m.py: area"]


def test_one_that_was_entered_once_must_be_executed(tmp_path: Path):
    sides = both(tmp_path, OLD, OLD.replace("r**2", "r * r"), {1, 3, 5, 7}, {1, 3, 9, 10})
    assert unentered(*sides) == []


NEW = """
    class Circle:
        sides = 0

        def area(self, r):
            return 3 * r * r

        def rim(self, r):
            return 6 * r

    def sector(r):
        return area(r) / 2
    """
#: Lines of the old and the new text together that are executed where nothing new is called.
IMPORTED = {14, 15, 17, 20, 23}


def test_what_is_new_and_not_called_need_not_be_executed(tmp_path: Path):
    assert complaints(tmp_path, OLD, OLD + NEW, set(), IMPORTED) == []


def test_what_is_called_must_be_executed_whole(tmp_path: Path):
    sides = both(tmp_path, OLD, OLD + NEW, set(), IMPORTED | {21})
    assert unexecuted(*sides) == []
    assert unentered(*sides) == ["m.py: Circle.area"]


def test_a_function_that_is_gone_must_have_been_entered(tmp_path: Path):
    new = OLD[: OLD.index("    class")]
    assert unentered(*both(tmp_path, OLD, new, {1, 3, 9, 10}, {1, 3})) == ["m.py: Square.area"]
    (tmp_path / "two").mkdir()
    assert unentered(*both(tmp_path / "two", OLD, new, {1, 3, 9, 10, 12}, {1, 3})) == []


def test_what_takes_a_name_over_must_be_executed(tmp_path: Path):
    new = OLD.replace("Square", "Box") + NEW.replace("Circle", "Square")
    sides = both(tmp_path, OLD, new, set(), IMPORTED)
    assert unentered(*sides) == ["m.py: Square.area"]
    assert "m.py:18: return 3 * r * r" not in unexecuted(*sides)


def test_a_branch_that_is_new_must_be_taken(tmp_path: Path):
    new = OLD.replace("if r < 0:", "if r > 9:\n            return 0\n        if r < 0:")
    assert complaints(tmp_path, OLD, new, {3, 5, 7}, {3, 5, 7, 9}) == ["m.py:6: return 0"]


def test_a_branch_that_is_gone_must_have_been_taken(tmp_path: Path):
    new = OLD.replace("        if r < 0:\n            raise OverflowError(r)\n", "")
    assert complaints(tmp_path, OLD, new, {3, 5, 7}, {3, 5}) == ["before, m.py:6: raise OverflowError(r)"]


def test_other_words_of_a_refusal_make_no_results(tmp_path: Path) -> None:
    old = OLD.replace("raise OverflowError(r)", "raise UserError('no')")
    new = OLD.replace("raise OverflowError(r)", "raise UserError('never')")
    assert not complaints(tmp_path, old, new, {3, 5, 7}, {3, 5, 7})


def test_a_case_and_a_handler_must_be_reached_themselves(tmp_path: Path):
    lines = ["def f(x):", "    try:", "        match x:", "            case 1:", "                y = 2"]
    old = "\n".join([*lines, "    except KeyError:", "        pass"])
    new = old.replace("case 1", "case 3").replace("KeyError", "OSError")
    assert complaints(tmp_path, old, new, {1, 2, 3, 4, 6}, {1, 2, 3}) == [
        "m.py:4: case 3:",
        "m.py:6: except OSError:",
    ]


def test_a_statement_of_several_lines_is_executed_where_one_of_them_is(tmp_path: Path):
    assert complaints(tmp_path, "x = f(\n    1,\n    2,\n)\n", "x = f(\n    1,\n    3,\n)\n", {1}, {3}) == []


def test_a_module_that_is_new_must_be_executed(tmp_path: Path):
    assert complaints(tmp_path, "", "x = 1\nif x:\n    pass\n", set(), {1}) == ["m.py:2: if x:"]


def test_a_new_method_that_nothing_calls_is_not_asked_for(tmp_path: Path) -> None:
    new = textwrap.dedent(OLD) + "\n    def side(self, a):\n        return a\n"
    assert not complaints(tmp_path, OLD, new, {3, 5, 7}, {3, 5, 7})
    same = textwrap.dedent(OLD).replace("return a * a", "return a * a * 1")
    (tmp_path / "two").mkdir()
    assert unentered(*both(tmp_path / "two", OLD, same, {3, 5, 7}, {3, 5, 7})) == ["m.py: Square.area"]
