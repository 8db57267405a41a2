"""Which lines of the code differ between two checkouts, and which of those no run has executed."""

import ast
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from unequal.errors import UserError
from unequal.pipeline.fingerprint import is_type_checking
from unequal.pipeline.syntax import canonical_node

#: Lines of files that a run has executed, by path below the checkout.
Executed = dict[str, set[int]]
#: What has lines of its own that are executed when it is reached.
Piece = ast.stmt | ast.ExceptHandler | ast.match_case
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
#: What stages refuse bad input with, and what settings do.
REFUSALS = {UserError.__name__, ValueError.__name__}
#: Fields of a statement that hold statements, or what has some.
STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Side:
    """A checkout, the files of its code that count, and the lines of them that a run has executed."""

    root: Path
    modules: set[str]
    executed: Executed

    @cached_property
    def texts(self) -> dict[str, str]:
        """The files' contents."""
        return {name: (self.root / name).read_text(encoding="utf-8") for name in sorted(self.modules)}

    @cached_property
    def names(self) -> set[str]:
        """Of all modules' functions and classes, and of these classes' own."""
        return {name for text in self.texts.values() for name, _ in named(ast.parse(text))}

    @cached_property
    def definitions(self) -> set[str]:
        """All functions and classes, as what they say."""
        return {one for text in self.texts.values() for one in definitions_in(text)}


class Skipped(NamedTuple):
    """A changed statement that was not executed, as `path:line: text`, and its function where nothing has entered that.

    Attributes:
        function: `path: name`, empty for a statement of a module, a class, or a function that a run has entered.
    """

    statement: str
    function: str


def unexecuted(before: Side, after: Side) -> list[str]:
    """`path:line: text` of changed statements that were not executed: removed ones before, added ones after.

    Layout, comments and docstrings do not count, nor do functions and classes that say the same somewhere else. Nor
    does who refuses, since what was refused has left no results. Nor does a function or class of a new name
    that nothing has called: what ran did without it, and recorded settings cannot have asked for it. Functions that
    no run has entered are left to `unentered`.
    """
    return [one.statement for one in skipped(before, after) if not one.function]


def unentered(before: Side, after: Side) -> list[str]:
    """`path: name` of functions that differ, or are gone, or new, and that the run of no side has entered."""
    return sorted({one.function for one in skipped(before, after) if one.function})


def skipped(before: Side, after: Side) -> list[Skipped]:
    """Of both sides."""
    removed = (one._replace(statement=f"before, {one.statement}") for one in skipped_in(before, after))
    return [*removed, *skipped_in(after, before, before.names)]


def skipped_in(side: Side, other: Side, names: set[str] | None = None) -> Iterator[Skipped]:
    """Those of one side that the other has not; definitions of none of these names may be there without being used."""
    entered = set(functions_entered(other))
    for name, text in side.texts.items():
        ran, lines = side.executed.get(name, set()), text.splitlines()
        unused = set() if names is None else unused_lines(text, ran, names)
        functions = [(f"{name}: {dotted}", lines_of(node)) for dotted, node in functions_unentered(text, ran)]
        for own in changed_pieces(text, other.texts.get(name, ""), other.definitions):
            if not (ran | unused) & set(own):
                inside = [one for one, whole in functions if own[0] in whole and one not in entered]
                yield Skipped(f"{name}:{own[0]}: {lines[own[0] - 1].strip()}", (inside or [""])[0])


def functions_entered(side: Side) -> Iterator[str]:
    """`path: name` of functions and methods that a side's run has entered."""
    for name, text in side.texts.items():
        alone = {dotted for dotted, _ in functions_unentered(text, side.executed.get(name, set()))}
        yield from (f"{name}: {dotted}" for dotted, one in named(ast.parse(text)) if dotted not in alone)


def functions_unentered(text: str, ran: set[int]) -> list[tuple[str, Function]]:
    """A source's functions and methods of which no line has run but what runs on import: names and defaults."""
    functions = [(name, one) for name, one in named(ast.parse(text)) if isinstance(one, Function)]
    return [(name, one) for name, one in functions if not ran & set(body_of(one))]


def lines_of(node: Definition) -> range:
    """All of a definition's lines."""
    return range(node.lineno, (node.end_lineno or 0) + 1)


def body_of(node: Function) -> range:
    """The lines of a function that run when it is called."""
    return range(node.body[0].lineno, (node.end_lineno or 0) + 1)


def unused_lines(text: str, ran: set[int], names: set[str]) -> set[int]:
    """Lines of a source's functions, methods and classes of none of these names, in which no function has run."""
    found: set[int] = set()
    for name, node in named(ast.parse(text)):
        functions = [one for one in ast.walk(node) if isinstance(one, Function)]
        ran_in = any(ran & set(body_of(one)) for one in functions)
        above = name.rpartition(".")[0]  # a new class is used as a whole, or not at all
        if name not in names and (not above or above in names) and not ran_in:
            found |= set(lines_of(node))
    return found


def named(node: ast.Module | ast.ClassDef, above: str = "") -> Iterator[tuple[str, Definition]]:
    """Functions and classes of a module, and what is defined in these classes, by dotted names."""
    for child in node.body:
        if isinstance(child, Definition):
            yield above + child.name, child
        if isinstance(child, ast.ClassDef):
            yield from named(child, f"{above}{child.name}.")


def changed_pieces(text: str, other: str, known: set[str]) -> list[range]:
    """Lines of each statement in a source that does not stand in the other one, leaving out known definitions."""
    changed = set(changed_lines(other, text))
    pieces = pieces_of(ast.parse(text), known)
    return sorted({own.start: own for own in pieces if changed & set(own)}.values(), key=lambda own: own.start)


def changed_lines(old: str, new: str) -> Iterator[int]:
    """Numbers of the lines that a text has and another has not, from 1."""
    matcher = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind != "equal":
            yield from range(start + 1, end + 1)


def pieces_of(node: ast.AST, known: set[str]) -> Iterator[range]:
    """The lines of every statement below a node that does something: of a compound one, those of its head."""
    skipped = node.body if isinstance(node, ast.If) and is_type_checking(node.test) else []
    for child in ast.iter_child_nodes(node):
        if child in skipped or does_nothing(child) or refuses(child) or is_known(child, known):
            continue
        if isinstance(child, Piece):
            yield head(child)
        yield from pieces_of(child, known)


def does_nothing(node: ast.AST) -> bool:
    """Whether a statement leaves nothing to be executed: `pass`, a constant by itself, a declaration."""
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, ast.Pass | ast.Global | ast.Nonlocal)


def refuses(node: ast.AST) -> bool:
    """Whether a statement tells of bad input or settings, which ends a stage before it makes anything."""
    raised = node.exc if isinstance(node, ast.Raise) else None
    return isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name) and raised.func.id in REFUSALS


def head(piece: Piece) -> range:
    """The lines of a statement without the statements in it, decorators included."""
    inner = {id(one) for name in STATEMENTS for one in getattr(piece, name, [])}
    own = [node for child in ast.iter_child_nodes(piece) if id(child) not in inner for node in ast.walk(child)]
    starts = [node.lineno for node in (piece, *own) if hasattr(node, "lineno")]
    ends = [end for node in own if (end := getattr(node, "end_lineno", None))]
    whole = [] if inner else [getattr(piece, "end_lineno", None) or 0]
    return range(min(starts), max([*starts, *ends, *whole]) + 1)


def is_known(node: ast.AST, known: set[str]) -> bool:
    """Whether a function or class is one of those known."""
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and canonical_node(node) in known


def definitions_in(text: str) -> Iterable[str]:
    """All functions and classes of a source, as what they say."""
    nodes = ast.walk(ast.parse(text))
    return (canonical_node(one) for one in nodes if isinstance(one, ast.FunctionDef | ast.ClassDef))
