"""Canonical text of definitions, and the definitions that a program reaches, in a small project."""

import ast
import textwrap
from pathlib import Path

import pytest

from unequal.pipeline.definitions import Canonical, Project, canonical


def of(source: str) -> str:
    tree = ast.parse(textwrap.dedent(source))
    return "\n".join(ast.unparse(one) for one in map(canonical, tree.body) if not isinstance(one, ast.Pass))


def body(text: str) -> str:
    return f"def f(a, b):\n{textwrap.indent(textwrap.dedent(text), '    ')}\n    return a"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f(1,\n  2)  # one", "x = f(1, 2)"),
        ("x = 'a' 'b'", 'x = "ab"'),
        ("def f():\n    'One.'\n    return 1", "def f():\n    return 1"),
        ("class C:\n    'A.'\n    x = 1", "class C:\n    'B.'\n    x = 1"),
        ("class C:\n    x: int = 1", "class C:\n    x: float = 1"),
        ("def f(a: int) -> int:\n    return a", "def f(a):\n    return a"),
        (body("c = a\nd = c + b\na = d"), body("x: int = a\ny = x + b\na = y")),
        (body("a = [c for c in b]"), body("a = [number for number in b]")),
        (body("if a < 0: raise ValueError(f'{a}: below 0')"), body("if b > 7: raise KeyError('no')")),
        (body("if a < 0:\n    names = sorted(b)\n    raise ValueError(names)"), body("")),
        (body("assert a"), body("")),
        (body("say(f'{a} of {b}', err=True)"), body("")),
        (body("try: a()\nexcept OSError as e: raise UserError(f'{e}') from None"),
         body("try: a()\nexcept OSError as error: raise UserError('gone')")),
        (body("with progress(a, 'images', label='Scores'): a()"), body("with progress(a, 'pictures'): a()")),
        (body("from unequal.data import c\na = c"), body("from unequal.other import c\na = c")),
        (body("raise UserError('no')"), body("raise UserError(f'{a}: no')")),
    ],
)  # fmt: skip
def test_words_types_local_names_and_guards_do_not_count(before, after):
    assert of(before) == of(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 'a'", "x = b'a'"),
        ("x = a - b", "x = a + b"),
        ("x = f(a, b)", "x = f(b, a)"),
        ("x = f'{a:.1f}'", "x = f'{a:.2f}'"),
        ("def f(a, *, b): pass", "def f(a, b): pass"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("def f(a, b): return a - b", "def f(b, a): return b - a"),  # a caller may name them
        ("class C:\n    x: int\n    y: int", "class C:\n    y: int\n    x: int"),
        (body("c = a\nd = b\na = c - d"), body("c = a\nd = b\na = d - c")),
        (body("if a < 0: a = 1"), body("if a < 1: a = 1")),
        (body("if (c := a()): raise E()\na = c"), body("if (c := b()): raise E()\na = c")),
        (body("if a < 0: raise E()\nelse: a = 2"), body("if a < 0: raise E()\nelse: a = 3")),
        (body("f('doc')"), body("f('other')")),
    ],
)
def test_what_changes_a_result_counts(before, after):
    assert of(before) != of(after)


FILES = {
    "stages/draw.py": """
        from unequal.pipeline.stage import stage
        from unequal.training import shapes
        from unequal.training.weights import WEIGHTS
        from unequal.report.page import page

        class Settings: ...

        @stage(Settings)
        def main(run, settings):
            from unequal.data.images import load
            shape = shapes.Circle(settings.radius)
            page(shape.area() * WEIGHTS[settings.weight](load(run)))
    """,
    "stages/count.py": """
        from unequal.training.weights import WEIGHTS

        def main(run, settings):
            return [weight(1) for weight in WEIGHTS.values()]
    """,
    "unequal/training/__init__.py": "",
    "unequal/training/shapes.py": """
        import math
        from ..randomness import seed
        UNIT = math.pi
        UNUSED = 1

        class Shape:
            def area(self): return 0
            def name(self): return "shape"

        class Circle(Shape):
            def __init__(self, radius): self.radius = radius
            def area(self): return UNIT * self.radius ** 2 + seed()
            def edge(self): return 2 * UNIT * self.radius
    """,
    "unequal/training/weights.py": """
        def constant(x): return 1
        def halved(x): return x * HALF
        def unknown(x): return 3
        HALF = 0.5
        WEIGHTS = {"constant": constant, "halved": halved, "unknown": unknown}
    """,
    "unequal/data/images.py": "def load(run): return open('order.md') or first(run)\ndef first(run): return run\n",
    "unequal/data/order.md": "by name",
    "unequal/randomness.py": "def seed(): return 1\n",
    "unequal/report/page.py": "from unequal.training.shapes import UNUSED\ndef page(x): return x\n",
    "unequal/pipeline/stage.py": "def stage(settings): return lambda function: function\n",
    "unequal/settings/shapes.py": "class Settings:\n    def radius(self): return 1\n    def check(self): return 2\n",
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def codes(root: Path) -> dict[str, dict[str, str]]:
    code = Project(root)
    return {name: code.fingerprint(root / f"stages/{name}.py", ["halved"]) for name in ("draw", "count")}


def test_a_program_reaches_what_it_names(project):
    assert list(codes(project)["draw"]) == [
        "Circle", "Circle.__init__", "Circle.area", "Settings", "Settings.radius", "Shape", "Shape.area", "UNIT",
        "WEIGHTS[halved]", "HALF", "first", "halved", "load", "main", "order.md", "seed",
    ] or sorted(codes(project)["draw"]) == sorted([
        "Circle", "Circle.__init__", "Circle.area", "Settings", "Settings.radius", "Shape", "Shape.area", "UNIT",
        "WEIGHTS[halved]", "HALF", "first", "halved", "load", "main", "order.md", "seed",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "reached"),
    [
        ("unequal/training/shapes.py", "2 + seed", "3 + seed", {"draw"}),
        ("unequal/training/shapes.py", "2 * UNIT", "3 * UNIT", set()),
        ("unequal/training/shapes.py", "UNUSED = 1", "UNUSED = 2", set()),
        ("unequal/training/shapes.py", '"shape"', '"form"', set()),
        ("unequal/training/weights.py", "0.5", "0.25", {"draw", "count"}),
        ("unequal/training/weights.py", "return 3", "return 4", {"count"}),  # it goes through all of them
        ("unequal/training/weights.py", "return 1", "return 5", {"count"}),
        ("unequal/training/weights.py", "def constant(x)", "def more(x): return 0\ndef constant(x)", set()),
        ("unequal/data/images.py", "first(run)", "first(run, 1)", {"draw"}),
        ("unequal/data/order.md", "name", "size", {"draw"}),
        ("unequal/randomness.py", "1", "2", {"draw"}),
        ("unequal/report/page.py", "return x", "return -x", set()),
        ("unequal/pipeline/stage.py", "lambda function", "lambda f", set()),
        ("unequal/settings/shapes.py", "return 1", "return 7", {"draw"}),
        ("unequal/settings/shapes.py", "return 2", "return 7", set()),
        ("stages/draw.py", "* WEIGHTS", "/ WEIGHTS", {"draw"}),
    ],
)
def test_an_edit_reaches_what_computes_with_it_alone(project, file, old, new, reached):
    before, path = codes(project), project / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    after = codes(project)
    assert {name for name in before if before[name] != after[name]} == reached


def test_a_definition_that_moves_to_another_module_stays_the_same(project):
    before = codes(project)
    weights, moved = project / "unequal/training/weights.py", project / "unequal/training/halves.py"
    moved.write_text("HALF = 0.5\ndef halved(x): return x * HALF\n")
    text = weights.read_text().replace("def halved(x): return x * HALF\n", "").replace("HALF = 0.5\n", "")
    weights.write_text(f"from unequal.training.halves import halved\n{text}")
    assert codes(project) == before


def test_an_entry_counts_once_settings_name_it(project):
    program = project / "stages/draw.py"
    names = {"constant", "halved", "unknown"}
    for key in names:
        reached = set(Project(project).fingerprint(program, [key]))
        assert reached & names == {key}


def test_nothing_is_left_of_statements_that_only_raise():
    tree = Canonical().visit(ast.parse("for x in y:\n    if x: raise E()"))
    assert ast.unparse(tree) == "for x in y:\n    pass"
