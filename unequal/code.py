"""Fingerprints of code: all that a module can reach and that can shape its results.

A fingerprint holds

- every module of the project that it imports, directly or not, within functions too, and the `__init__.py` of every
  package on the way, without comments and docstrings (`canonical`);
- the texts and templates that such a module names, where they lie in its folder;
- the versions of the libraries that these modules import.

The harness, `unequal.pipeline` and `unequal.runtime.processes`, does not count: it decides when a program runs and
stops, in how many processes and where its files lie, not their content. Imports under `TYPE_CHECKING` do not count
either: they never run.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: The project whose code runs; it may be a copy that DVC has made.
ROOT = Path(__file__).parents[1]
HARNESS = ("unequal.pipeline", "unequal.runtime.processes")
#: Distributions whose modules are named otherwise.
DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
DIGEST_CHARACTERS = 16
#: Folders into which packages are installed.
INSTALLED = ("site-packages", "dist-packages")
#: Kind (modules, texts, libraries) → name → digest or version.
Fingerprint = dict[str, dict[str, str | None]]


@dataclass(frozen=True)
class Module:
    """A file of Python: digest of its code, names that it imports, strings that may name texts."""

    digest: str
    imports: frozenset[str]
    strings: frozenset[str]


@dataclass(frozen=True)
class Reached:
    """A module's part in a fingerprint: its digest, and the texts (by label), libraries and project files it needs."""

    digest: str
    texts: dict[str, str]
    libraries: frozenset[str]
    files: frozenset[Path]


class Tree:
    """The project's files as they are now; each is read once, however many programs reach it."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.looked_at: dict[Path, Reached] = {}
        self.files_of = cache(lambda name: tuple(files_of(name, root)))  # many modules import the same names

    def fingerprint(self, program: Path) -> Fingerprint:
        """Fingerprint a program, given by its file.

        Raises:
            SyntaxError: a module is no valid Python.
        """
        todo, seen = {program, *initialisers(program.parent, self.root)}, set[Path]()
        while todo:
            seen |= todo
            todo = {imported for file in todo for imported in self.reached(file).files} - seen
        modules = {label(file, self.root): self.reached(file) for file in sorted(seen)}
        texts: dict[str, str | None] = {
            name: text for module in modules.values() for name, text in module.texts.items()
        }
        libraries = {name for module in modules.values() for name in module.libraries}
        return {
            "modules": {name: module.digest for name, module in sorted(modules.items())},
            "texts": dict(sorted(texts.items())),
            "libraries": {name: public_version(name) for name in sorted(libraries)},
        }

    def reached(self, file: Path) -> Reached:
        """Read a module of the project, once."""
        if file not in self.looked_at:
            module = module_of(file, file.stat().st_mtime_ns, package_of(file, self.root))
            texts = [text for name in sorted(module.strings) if (text := file.with_name(name)).is_file()]
            libraries = {name for name in module.imports if is_library(name, self.root)}
            ours = {name for name in module.imports - libraries if not is_harness(name)}
            self.looked_at[file] = Reached(
                module.digest,
                {label(text, self.root): digest(text.read_text(encoding="utf-8")) for text in texts},
                frozenset(name.split(".")[0] for name in libraries),
                frozenset(path for name in ours for path in self.files_of(name)),
            )
        return self.looked_at[file]


def fingerprint(program: Path, root: Path = ROOT) -> Fingerprint:
    """Fingerprint a program, as `Tree.fingerprint`."""
    return Tree(root).fingerprint(program)


def digest(text: str) -> str:
    """Digest a text."""
    return sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def label(file: Path, root: Path) -> str:
    """Return a file's path below the root; the name of a file from elsewhere."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


@cache
def module_of(file: Path, changed: int, package: str) -> Module:
    """Parse a file; `changed` is its time stamp, so that the cache notices an edit."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    running = list(nodes_that_run(tree))
    strings = {node.value for node in running if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = frozenset(text for text in strings if text.endswith((".md", ".j2")) and "/" not in text)
    imports = frozenset(name for node in running for name in imported(node, package))
    return Module(digest(canonical(tree)), imports, names)


def nodes_that_run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, except what stands below `if TYPE_CHECKING`, which no running program enters."""
    yield node
    skipped = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else []
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield from nodes_that_run(child)


def imported(node: ast.AST, package: str) -> set[str]:
    """Name the modules that a statement imports, and the names it takes from them, which may be modules too."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: -(node.level - 1) or None] if node.level else []
        module = ".".join([*above, *filter(None, [node.module])])
        return {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return set()


def package_of(file: Path, root: Path) -> str:
    """Return the dotted name of a file's package."""
    return ".".join(file.relative_to(root).parts[:-1]) if file.is_relative_to(root) else ""


def files_of(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a module of the project, if it is one, and the `__init__.py` files on the way."""
    path = root.joinpath(*name.split("."))
    yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())
    yield from initialisers(path.parent, root)


def initialisers(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the `__init__.py` of a package and of those around it."""
    while folder != root and folder.is_relative_to(root):
        if (folder / "__init__.py").is_file():
            yield folder / "__init__.py"
        folder = folder.parent


def is_library(name: str, root: Path) -> bool:
    """Say whether a module comes neither from the project nor with Python."""
    top = name.split(".")[0]
    ours = (root / top).is_dir() or (root / f"{top}.py").is_file()
    if root.name in INSTALLED:  # libraries lie next to an installed wheel
        ours = top in (__name__.split(".")[0], "stages")
    return not ours and top not in sys.stdlib_module_names


def is_harness(name: str) -> bool:
    """Say whether a module belongs to the harness."""
    return f"{name}.".startswith(tuple(f"{part}." for part in HARNESS))


def public_version(name: str) -> str | None:
    """Return the version of a library without a label like `+cu128`; None where it is not installed."""
    try:
        return version(DISTRIBUTIONS.get(name, name)).split("+")[0]
    except PackageNotFoundError:
        return None


def canonical(tree: ast.Module) -> str:
    """Print a syntax tree without docstrings, which are taken out of it; it has neither layout nor comments.

    Another version of Python may print it otherwise: then every program counts as edited.
    """
    for node in ast.walk(tree):
        for body in (field for _, field in ast.iter_fields(node) if isinstance(field, list)):
            body[:] = [one for one in body if not is_bare_text(one)]
    return ast.dump(tree)


def is_bare_text(node: object) -> bool:
    """Say whether a statement is a docstring or another bare text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
