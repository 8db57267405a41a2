"""dvc.yaml declares exactly what its stages read: settings, code, inputs."""

import ast
from pathlib import Path

import pytest
import yaml
from graph import ROOT, Instance, import_closure, instances

from unequal.files import read_json
from unequal.settings.params import json_schema, read_params

each_instance = pytest.mark.parametrize("instance", instances(), ids=lambda instance: instance.name)
each_program = pytest.mark.parametrize(
    "instance", {i.program: i for i in instances()}.values(), ids=lambda instance: instance.program
)


@each_instance
def test_a_stage_declares_the_settings_that_it_reads(instance: Instance):
    # A stage is handed an object of its settings' type and nothing else of params.yaml.
    read = set(instance.command.settings.keys(**instance.options).values())
    assert read == instance.params


@each_instance
def test_a_stage_can_read_its_settings(instance: Instance, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    instance.command.settings.read(**instance.options)


@each_program
def test_a_stage_declares_the_code_that_it_imports(instance: Instance):
    code = {dep for dep in instance.deps if dep.startswith(("unequal", "stages"))}
    closure = {str(file) for file in import_closure(instance.source) if file.name != "__init__.py"}

    def covers(dep: str, file: str) -> bool:
        return file == dep or file.startswith(f"{dep}/")

    missing = {file for file in closure if not any(covers(dep, file) for dep in code)}
    needless = {dep for dep in code if not any(covers(dep, file) for file in closure)}
    assert (missing, needless) == (set(), set())


def inputs_in_code(instance: Instance) -> list[str]:
    """Arguments of `run.input(…)`; from the first part on that is not an option, `*` stands for the rest."""
    found = []
    for node in ast.walk(ast.parse((ROOT / instance.source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "run.input":
            expression = ast.unparse(node.args[0])
            try:
                found.append(eval(expression, {}, dict(instance.options)))  # our own source, options as names
            except NameError:
                found.append(expression.split("'")[1].split("{")[0] + "*")
    return found


@each_instance
def test_a_stage_declares_the_files_that_it_reads(instance: Instance):
    files = inputs_in_code(instance)
    declared = {dep for dep in instance.deps if not dep.startswith(("unequal", "stages"))}
    declared -= {"artifacts/params_checked.json"}  # the gate is waited for, not read
    undeclared = [
        file
        for file in files
        if not any(file == dep or file.startswith(f"{dep}/") or file == f"{dep}/*" for dep in declared)
    ]
    assert undeclared == []
    if "run.input," in (ROOT / instance.source).read_text(encoding="utf-8"):
        return  # the stage hands `run.input` on: what is read then does not stand in its own file
    unread = [dep for dep in declared if not any(f == dep or f.startswith(f"{dep}/") for f in files)]
    assert unread == []


@pytest.mark.parametrize("source", sorted((ROOT / "unequal").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_floors_import_downwards_only(source: Path):
    floors = [
        ("errors", "randomness", "files"),
        (
            "schedule",
            "predictions",
            "partition",
            "samplers",
            "weights",
            "floor",
            "ddim",
            "heads",
            "loss_profile",
            "similarity",
            "landscape",
        ),
        ("settings",),
        ("data", "ranges"),
        ("models",),
        ("training",),
        ("profiling", "sampling", "pruning", "evaluation", "reporting"),
        ("pipeline", "tools"),
    ]

    def floor(file: Path) -> int:
        room = file.parts[1].removesuffix(".py") if len(file.parts) > 1 else ""
        return next((i for i, rooms in enumerate(floors) if room in rooms), 0)

    here = source.relative_to(ROOT)
    above = [str(file) for file in import_closure(here) if floor(file) > floor(here)]
    assert above == []


def test_one_module_knows_mlflow():
    knowing = [
        path.name
        for path in (ROOT / "unequal").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(a.name.split(".")[0] == "mlflow" for a in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mlflow")
    ]
    assert set(knowing) == {"store.py"}


def test_every_stage_says_what_it_is():
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert [name for name, stage in stages.items() if not stage.get("desc")] == []


def test_lists_to_fan_out_over_stand_in_params():
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    axes = [axis for stage in stages.values() for axis in stage.get("matrix", {}).values()]
    assert axes
    assert all(isinstance(axis, str) and axis.startswith("${") for axis in axes)


def test_schema_in_the_repository_is_the_generated_one():
    assert read_json(ROOT / "params.schema.json") == json_schema(), "run: python -m unequal.tools.schema"


@pytest.mark.parametrize("preset", sorted((ROOT / "presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_presets_are_whole_and_sound(preset: Path):
    read_params(preset)
