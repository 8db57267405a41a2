"""Bring the code dependencies in every dvc.yaml up to date: `python -m unequal.tools.deps`.

A stage depends on the project's modules that its program imports, directly or not. Rooms that are
used as a whole stand as folders, all else as files, so that an edit makes no other stage stale.
"""

import ast
import re
import textwrap
from pathlib import Path

import click

#: Rooms that a stage depends on as a whole.
ROOMS = ("pipeline", "training", "models", "pruning")
WHOLE_PARAMS = Path("unequal/settings/params.py")
PACKAGES = ("unequal", "stages")
LISTED = re.compile(r"(?m)^    deps:\n      \[\n(.*?)^      \]\n", re.DOTALL)
WIDTH = 110


def module_file(name: str, root: Path) -> Path | None:
    """The file of a module, relative to the root; None where it is not the project's."""
    path = Path(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if (root / candidate).exists()), None)


def imported_modules(source: Path, root: Path) -> set[Path]:
    """The project's modules that a file imports itself; lazy imports count."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((root / source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {file for name in names if name.split(".")[0] in PACKAGES and (file := module_file(name, root))}


def import_closure(source: Path, root: Path = Path()) -> set[Path]:
    """A file and all the project's modules that it imports, directly or not."""
    found: set[Path] = set()
    todo = [source]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += imported_modules(file, root)
    return found


def code_dependencies(program: Path, root: Path = Path()) -> list[str]:
    """What dvc.yaml lists for a stage's program: itself, rooms and modules, then settings."""
    files = {file for file in import_closure(program, root) if file.name != "__init__.py"} - {program}
    # Who reads a whole params.yaml depends on every section.
    rooms = (*ROOMS, "settings") if WHOLE_PARAMS in files else ROOMS
    listed = sorted({str(Path(*f.parts[:2]) if f.parts[1] in rooms else f) for f in files})
    is_settings = [one.startswith("unequal/settings/") for one in listed]
    order = sorted(zip(is_settings, listed, strict=True))
    return [str(program), *(one for _, one in order)]


def rewritten(text: str, up: str, root: Path = Path()) -> str:
    """The text of a dvc.yaml with the code dependencies that its stages have.

    `up` leads from its folder to the project's root.
    """

    def fresh(match: re.Match[str]) -> str:
        listed = [one.strip() for one in match[1].replace("\n", " ").split(",") if one.strip()]
        code = [one for one in listed if one.strip('"').startswith(tuple(f"{up}{package}" for package in PACKAGES))]
        data = ", ".join(one for one in listed if one not in code)
        program = next(one for one in code if one.startswith(f"{up}stages/")).removeprefix(up)
        needed = ", ".join(f"{up}{one}" for one in code_dependencies(Path(program), root))
        lines = [line for part in (data, needed) for line in textwrap.wrap(f"{part},", WIDTH, break_on_hyphens=False)]
        return "    deps:\n      [\n" + "".join(f"        {line}\n" for line in lines) + "      ]\n"

    return LISTED.sub(fresh, text)


@click.command(help=__doc__)
def main() -> None:
    """Rewrite dvc.yaml and those of the studies."""
    for path in [Path("dvc.yaml"), *sorted(Path("studies").glob("*/dvc.yaml"))]:
        text = path.read_text(encoding="utf-8")
        if "<<<<<<<" in text:
            raise click.ClickException(f"{path}: holds an unresolved merge")
        new = rewritten(text, "../" * (len(path.parts) - 1))
        if new != text:
            path.write_text(new, encoding="utf-8")
            click.echo(f"{path}: brought up to date")


if __name__ == "__main__":
    main()
