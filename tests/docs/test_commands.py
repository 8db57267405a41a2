"""Commands on the pages can be called: programs exist and take the options that are shown. None is run."""

import importlib
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from dvc.cli import parse_args
from pages import ROOT, each_block
from snakemake.cli import get_argument_parser

from unequal.cli.main import unequal
from unequal.settings.strict import read_yaml


@each_block("bash")
def test_commands_can_be_called(block, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = [words for line in block.text.splitlines() for words in commands_of(line)]
    assert commands
    for program, *arguments in commands:
        CHECKS.get(program, is_there)(arguments)


#: Params file → commands in its first lines.
HEADS = {
    file: re.findall(r"^#   (.*&&.*|unequal .*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    for file in (*sorted((ROOT / "presets").glob("*.yaml")), ROOT / "studies/latent/ffhq256-ldm.yaml")
}


@pytest.mark.parametrize("file", [file for file, lines in HEADS.items() if lines], ids=lambda file: file.stem)
def test_commands_of_a_params_file_can_be_called(file, monkeypatch):
    monkeypatch.chdir(ROOT)
    stages = read_yaml(Path("dvc.yaml"))["stages"]
    for program, *arguments in (command for line in HEADS[file] for command in commands_of(line)):
        if program == "dvc":  # of the file itself, in the place of params.yaml; DVC ignores the folders of studies
            assert {target.partition("@")[0] for target in parse_args(arguments).targets} <= set(stages)
        else:
            CHECKS[program](arguments)


def commands_of(line: str) -> Iterator[list[str]]:
    for command in re.split(r"&&", line.split(" | ")[0]):  # what follows a pipe filters the output alone
        words = shlex.split(command, comments=True)
        if words[:5] == ["python3", "-m", "uv", "run", *words[4:5]]:
            words = words[4:]
        if words:
            yield words


def is_there(arguments: list[str]) -> None:
    raise AssertionError("no check knows the program of this line")


def check_python(arguments: list[str]) -> None:
    """A module of the project, and its options."""
    if arguments[0].endswith(".py"):
        assert (ROOT / arguments[0]).is_file()
        return
    flag, name, *options = arguments
    assert flag == "-m"
    if name in ("pip", "uv"):
        return
    module = importlib.import_module(f"{name}.__main__" if (ROOT / name / "__init__.py").exists() else name)
    command = getattr(module, "main", None)
    if command is None:
        assert options == []
        return
    assert isinstance(command, click.Command)
    command.make_context(name, [part for option in options for part in expanded(option)])


def expanded(word: str) -> list[str]:
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def check_dvc(arguments: list[str]) -> None:
    parsed = parse_args(arguments)
    for target in getattr(parsed, "targets", None) or []:
        file, _, stage = target.rpartition(":") if ".yaml:" in target else ("dvc.yaml", "", target)
        assert stage in instances(Path(file)) or Path(target).is_file(), target


def check_snakemake(arguments: list[str]) -> None:
    parsed = get_argument_parser().parse_args(arguments)
    folder = Path(parsed.directory or ".")
    assert all(Path(given).is_dir() for given in (*(parsed.profile or ()), folder))
    assert set(parsed.targets) <= {re.sub(r"\W+", "_", name) for name in instances(folder / "dvc.yaml")}


def instances(file: Path) -> set[str]:
    settings = read_yaml(ROOT / "presets/digits.yaml" if file.parent == Path() else file.with_name("params.yaml"))
    names = set()
    for name, stage in read_yaml(file)["stages"].items():
        axes = [settings_at(settings, axis.strip("${}")) for axis in stage.get("matrix", {}).values()]
        names |= {name, *(f"{name}@{'-'.join(map(str, values))}" for values in product(*axes) if axes)}
    return names


def settings_at(settings: Any, key: str) -> Any:
    return reduce(lambda section, part: section[part], key.split("."), settings)


def check_mlflow(arguments: list[str]) -> None:
    from mlflow.cli import cli

    with cli.make_context("mlflow", list(arguments), resilient_parsing=True) as context:
        name, command, rest = cli.resolve_command(context, arguments)
        assert command is not None
        command.make_context(name, rest, parent=context)


def check_unequal(arguments: list[str]) -> None:
    with unequal.make_context("unequal", list(arguments), resilient_parsing=True) as context:
        name, command, rest = unequal.resolve_command(context, arguments)
        assert command is not None
        with patch.object(click.Path, "convert", lambda self, value, *_: Path(value)):  # a user's folder is not here
            command.make_context(name, rest, parent=context)


def check_copy(arguments: list[str]) -> None:
    source, target = map(Path, arguments)
    assert source.exists()
    assert target.parent.exists()


def check_installed(program: str) -> Callable[[list[str]], None]:
    def check(_: list[str]) -> None:
        assert shutil.which(program), program

    return check


def check_activation(arguments: list[str]) -> None:
    """The environment that uv makes in the project."""
    assert arguments == [".venv/bin/activate"]


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "python": check_python,
    "python3": check_python,
    "dvc": check_dvc,
    "snakemake": check_snakemake,
    "mlflow": check_mlflow,
    "cp": check_copy,
    "unequal": check_unequal,
    **dict.fromkeys(("cd", "export"), lambda arguments: None),
    **{program: check_installed(program) for program in ("pytest", "git", "ruff", "pyrefly", "pre-commit")},
    ".": check_activation,
    ".ci/run": lambda arguments: None,
}
