"""Fingerprints of code: which definitions a stage computes with, each with a digest.

Only the rooms in FORMULAS count, methods of settings, and the stage program's own file; there, what `main` reaches by
name. Of a table `TABLE = {"name": thing}` that is read by key, the entries count that settings name. So a message, a
docstring, a validation, the harness, a report, and whatever is added next to others make nothing stale.

`canonical` says what of a definition counts. Nothing is imported or run for it.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from unequal.runtime.place import ROOT

#: Folders and files of `unequal` that compute.
FORMULAS = (
    *("diffusion", "timesteps", "models", "data", "training", "sampling", "evaluation", "experts"),
    *("randomness.py", "runtime/devices.py"),
)
#: Of these, methods alone: they count where their names occur in what computes.
SETTINGS = "settings"
#: Calls that only speak: what is passed to them, or the whole statement, does not count.
SPEAKING, SHOWING = {"say", "needs", "warn", "describe_stop"}, {"progress", "tracked"}
#: Endings of texts that modules name and that lie next to them.
TEXTS = (".md", ".j2")
DIGEST_CHARACTERS = 16
#: Name of a definition → digest.
Fingerprint = dict[str, str]


class Canonical(ast.NodeTransformer):
    """What of a definition counts: no words, types, imports, nor guards that only raise."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        speaks = isinstance(node.value, ast.Call) and called(node.value) in SPEAKING
        return None if speaks or isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = called(node)
        if name.endswith(("Error", "Errors", "Warning")):
            return ast.Name(name, ast.Load())
        if name in SHOWING:
            node.args = [one for one in node.args if not isinstance(one, ast.Constant | ast.JoinedStr)]
            node.keywords = []
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return self.generic_visit(ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc))

    def visit_If(self, node: ast.If) -> ast.AST | None:
        binds = any(isinstance(one, ast.NamedExpr) for one in ast.walk(node.test))
        # Nothing of a block that ends in an error is left, neither what it raises nor the words that it prepares.
        guards = isinstance(node.body[-1], ast.Raise) and not node.orelse and not binds
        return None if guards or ast.unparse(node.test) == "TYPE_CHECKING" else self.filled(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        return None

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        return None

    visit_ImportFrom = visit_Import

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        # Of a field its place counts, also without a value.
        value = None if node.value is None else self.visit(node.value)
        return ast.Assign([node.target], value or ast.Constant(None), lineno=0)

    def filled(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if not node.body:  # type: ignore[attr-defined]
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node

    visit_For = visit_While = visit_With = visit_Try = visit_ExceptHandler = visit_ClassDef = filled

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.filled(node)


def called(node: ast.Call) -> str:
    """Name the function of a call, without what stands before the last dot."""
    return ast.unparse(node.func).rpartition(".")[2]


def canonical(node: ast.AST) -> ast.AST:
    """Return a definition without what does not count, its local names numbered; names of parameters stay."""
    tree = Canonical().visit(node) or ast.Pass()
    if not isinstance(node, ast.FunctionDef):
        return tree
    inner = [one for one in ast.walk(tree) if one is not tree]
    fixed = {one.arg for one in inner if isinstance(one, ast.arg)}
    fixed |= {name for one in inner if isinstance(one, ast.Global) for name in one.names}
    bound = [one.id for one in inner if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    bound += [one.name for one in inner if isinstance(one, ast.FunctionDef | ast.ExceptHandler) and one.name]
    numbers = {name: f"v{number}" for number, name in enumerate(dict.fromkeys(n for n in bound if n not in fixed))}
    for one in inner:
        if isinstance(one, ast.Name):
            one.id = numbers.get(one.id, one.id)
        elif isinstance(one, ast.FunctionDef | ast.ExceptHandler) and one.name:
            one.name = numbers.get(one.name, one.name)
        elif isinstance(one, ast.Nonlocal):
            one.names = [numbers.get(name, name) for name in one.names]
    return tree


@dataclass(eq=False)
class Definition:
    """A function, class (without its methods), method, value, entry of a table, or the other statements of a module."""

    name: str
    module: "Module"
    node: ast.AST
    #: Methods of a class, entries of a table: name → definition.
    parts: dict[str, "Definition"] = field(default_factory=dict)
    is_table: bool = False
    #: Nodes of the annotations of a class's fields: pydantic makes what they name.
    types: list[ast.AST] = field(default_factory=list)

    @property
    def method(self) -> str:
        """Name within its class."""
        return self.name.rpartition(".")[2]

    @property
    def runs_with_its_class(self) -> bool:
        """Say whether a method is called without being named: a special one, or a validator of pydantic's."""
        decorators = [ast.unparse(one) for one in getattr(self.node, "decorator_list", ())]
        return self.method.startswith("__") or any("_validator(" in one for one in decorators)

    @cached_property
    def tree(self) -> ast.AST:
        self.imports = self.module.imports | imported(self.node, self.module.package)
        return canonical(self.node)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def digest(self) -> str:
        return digest(ast.unparse(self.tree))

    @cached_property
    def strings(self) -> set[str]:
        return {one.value for one in self.nodes if isinstance(one, ast.Constant) and type(one.value) is str}

    @cached_property
    def attributes(self) -> set[str]:
        return {one.attr for one in self.nodes if isinstance(one, ast.Attribute)}

    @cached_property
    def references(self) -> dict["Definition", bool]:
        """Definitions that this one names, and whether a table is used as a whole, not by its keys alone."""
        parameters = {one.arg for one in self.nodes if isinstance(one, ast.arg)}
        above = {id(one.value): one for one in self.nodes if isinstance(one, ast.Attribute | ast.Subscript)}
        above |= {id(right): one for one in self.nodes if isinstance(one, ast.Compare) for right in one.comparators}
        found = dict[Definition, bool]()
        for name in [*self.nodes, *self.types]:
            if not isinstance(name, ast.Name) or name.id in parameters:
                continue
            words, top = [name.id], above.get(id(name))
            while isinstance(top, ast.Attribute):
                words, top = [*words, top.attr], above.get(id(top))
            target, rest = self.module.project.resolve(self.module, words, self.imports)
            if target is not None:
                by_key = rest == ["get"] or (top is not None and not rest)
                found[target] = found.get(target, False) or not by_key
        return found


def digest(text: str) -> str:
    """Digest a text."""
    return sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def imported(tree: ast.AST, package: str) -> dict[str, tuple[str, str | None]]:
    """Find the names that import statements bind: name → its module, and its name there if it is taken from one."""
    bound: dict[str, tuple[str, str | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bound |= {one.asname or one.name.split(".")[0]: (one.name if one.asname else one.name.split(".")[0], None)
                      for one in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            bound |= {one.asname or one.name: (module, one.name) for one in node.names}
    return bound


class Module:
    """A file of Python: its definitions by name, and what it imports."""

    def __init__(self, file: Path, project: "Project") -> None:
        self.file, self.project = file, project
        self.package = ".".join(file.parent.relative_to(project.root).parts) if project.holds(file) else ""
        tree = ast.parse(file.read_text(encoding="utf-8"))
        self.definitions: dict[str, Definition] = {}
        rest = list[ast.stmt]()
        for node in tree.body:
            name = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else assigned(node)
            if name is None or name in self.definitions:
                rest.append(node)
            else:
                self.definitions[name] = self.defined(name, node)
        self.imports = imported(ast.Module(rest, []), self.package)
        self.body = Definition(f"statements of {file.stem}", self, ast.Module(rest, []))

    def defined(self, name: str, node: ast.stmt) -> Definition:
        """Make a definition with its parts."""
        definition = Definition(name, self, node)
        if isinstance(node, ast.ClassDef):
            fields = [one.annotation for one in node.body if isinstance(one, ast.AnnAssign)]
            definition.types = [one for annotation in fields for one in ast.walk(annotation)]
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            definition.parts = {f"{number} {one.name}": Definition(f"{name}.{one.name}", self, one)
                                for number, one in enumerate(methods)}  # fmt: skip
            node.body = [one for one in node.body if not isinstance(one, ast.FunctionDef)]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant) and type(key.value) is str]
            definition.is_table = len(keys) == len(node.value.keys) > 0
            if definition.is_table:
                definition.parts = {key: Definition(f"{name}[{key}]", self, value)
                                    for key, value in zip(keys, node.value.values, strict=True)}  # fmt: skip
        return definition


def assigned(node: ast.stmt) -> str | None:
    """Return the one name that a statement gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


class Project:
    """The project's code as it is now; each file is read once, however many stages reach it."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.module = cache(lambda file: Module(file, self))
        self.file_of = cache(self._file_of)
        self.words = root / "unequal" / SETTINGS
        #: Methods of settings, by name: their objects come from outside of what computes.
        self.settings: dict[str, list[Definition]] = {}
        for file in sorted(self.words.rglob("*.py")):
            definitions = self.module(file).definitions.values()
            for method in (part for one in definitions if not one.is_table for part in one.parts.values()):
                decorators = {ast.unparse(one) for one in getattr(method.node, "decorator_list", ())}
                if decorators <= {"property", "cached_property"} and not method.method.startswith("__"):
                    self.settings.setdefault(method.method, []).append(method)

    def holds(self, file: Path) -> bool:
        """Say whether a file lies in the project."""
        return file.is_relative_to(self.root)

    def counts(self, file: Path) -> bool:
        """Say whether the definitions of a file of `unequal` count."""
        inside = file.relative_to(self.root / "unequal").as_posix() if self.holds(file) else ""
        return inside in FORMULAS or inside.split("/")[0] in FORMULAS

    def _file_of(self, name: str) -> Path | None:
        path = self.root.joinpath(*name.split("."))
        files = [path.with_suffix(".py"), path / "__init__.py"]
        return next((file for file in files if name.startswith("unequal") and file.is_file()), None)

    def resolve(
        self, module: Module, words: list[str], imports: dict[str, tuple[str, str | None]]
    ) -> tuple[Definition | None, list[str]]:
        """Find the definition that a dotted name means in a module, and the words after its own."""
        first, *rest = words
        if first not in imports:
            return None if module.file.is_relative_to(self.words) else module.definitions.get(first), rest
        name, inner = imports[first]
        path = [*([] if inner is None else [inner]), *rest]
        while path and self.file_of(f"{name}.{path[0]}") is not None:
            name, path = f"{name}.{path[0]}", path[1:]
        file = self.file_of(name)
        if file is None or not path or not self.counts(file):
            return None, []
        return self.resolve(self.module(file), path, self.module(file).imports)

    def fingerprint(self, program: Path, keys: Iterable[str]) -> Fingerprint:
        """Fingerprint a stage's program, where settings hold these strings, which may name entries of tables.

        Raises:
            SyntaxError: a file is no valid Python.
        """
        named = frozenset(keys)
        texts: dict[str, list[str]] = {}
        for one in self.reached(self.module(program), named):
            texts.setdefault(one.name, []).append(one.digest)
            files = [one.module.file.with_name(text) for text in one.strings if text.endswith(TEXTS)]
            texts |= {file.name: [digest(file.read_text(encoding="utf-8"))] for file in files if file.is_file()}
        merged = {
            name: found[0] if len(found) == 1 else digest(" ".join(sorted(found))) for name, found in texts.items()
        }
        return dict(sorted(merged.items()))

    def reached(self, program: Module, keys: frozenset[str]) -> Iterator[Definition]:
        """Yield the definitions that a program's `main` reaches."""
        reached: set[Definition] = set()
        main = program.definitions.get("main")
        pending, tables = {main} if main is not None else {*program.definitions.values()}, set[Definition]()
        attributes, strings = set[str](), set[str]()
        while pending:
            for one in pending:
                tables |= {target for target, whole in one.references.items() if target.is_table and not whole}
                attributes |= one.attributes
                strings |= one.strings
            reached |= pending
            follow = {t for one in pending for t, whole in one.references.items() if whole or not t.is_table}
            follow |= {part for table in tables for key, part in table.parts.items() if key in strings | keys}
            follow |= {one.module.body for one in pending}
            methods = {part for one in reached if one.parts and not one.is_table for part in one.parts.values()}
            follow |= {one for one in methods if one.method in attributes | strings or one.runs_with_its_class}
            follow |= {one for name in attributes for one in self.settings.get(name, ())}
            pending = follow - reached
        yield from (one for one in reached if one is not one.module.body or one.digest != EMPTY)


EMPTY = digest("")
