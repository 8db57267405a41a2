"""dvc.yaml declares exactly what its stages read: settings, code, inputs."""

import ast
from inspect import Parameter, signature
from pathlib import Path

import pytest
import yaml
from graph import ROOT, Instance, instances, telling_instances

from unequal.files import read_json
from unequal.settings.grid import trial_name
from unequal.settings.params import StudyParams, json_schema, read_params, read_pipeline_params, read_study_params
from unequal.settings.strict import read_yaml
from unequal.tools.deps import code_dependencies, import_closure
from unequal.tools.schema import SCHEMAS

each_instance = pytest.mark.parametrize("instance", telling_instances(), ids=lambda instance: instance.id)
each_program = pytest.mark.parametrize(
    "instance", {(i.folder, i.program): i for i in instances()}.values(), ids=lambda one: f"{one.folder}/{one.program}"
)
DVC_FILES = [ROOT / "dvc.yaml", *sorted((ROOT / "studies").glob("*/dvc.yaml"))]
#: Params files of studies/latent.
LATENT_PRESETS = ["ffhq256-ldm.yaml"]
each_graph = pytest.mark.parametrize("file", DVC_FILES, ids=lambda file: str(file.parent.relative_to(ROOT)))


@each_instance
def test_a_stage_declares_the_settings_that_it_reads(instance: Instance):
    # A stage is handed an object of its settings' type and nothing else of params.yaml.
    read = set(instance.command.settings.keys(**instance.options).values())
    assert read == instance.params


@each_instance
def test_a_stage_can_read_its_settings(instance: Instance, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT / instance.folder)
    instance.command.settings.read(**instance.options)


@each_program
def test_a_stage_declares_the_code_that_it_imports(instance: Instance):
    declared = {dep for dep in instance.deps if dep.startswith(("unequal", "stages"))}
    assert declared == set(code_dependencies(instance.source, ROOT)), "run: python -m unequal.tools.deps"


def inputs_in_code(instance: Instance) -> list[str]:
    """Arguments of `run.input(…)`; from the first part on that is not an option, `*` stands for the rest."""
    parameters = signature(instance.command.function).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not Parameter.empty}
    found = []
    for node in ast.walk(ast.parse((ROOT / instance.source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "run.input":
            expression = ast.unparse(node.args[0])
            try:
                # Our own source, options as names.
                found.append(eval(expression, {"trial_name": trial_name}, defaults | instance.options))
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
        ("errors", "randomness", "files", "parts", "processes", "stopping"),
        ("diffusion",),
        ("timesteps", "measures"),
        ("settings",),
        ("data", "ranges"),
        ("models",),
        ("profiling", "latents"),
        ("training",),
        ("measuring", "sampling", "pruning", "evaluation", "reporting"),
        ("tdc",),
        ("pipeline", "tools"),
    ]

    def floor(file: Path) -> int:
        room = file.parts[1].removesuffix(".py") if len(file.parts) > 1 else ""
        return next((i for i, rooms in enumerate(floors) if room in rooms), 0)

    here = source.relative_to(ROOT)
    above = [str(file) for file in import_closure(here, ROOT) if floor(file) > floor(here)]
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


@each_graph
def test_every_stage_says_what_it_is(file: Path):
    stages = yaml.safe_load(file.read_text(encoding="utf-8"))["stages"]
    assert [name for name, stage in stages.items() if not stage.get("desc")] == []


@each_graph
def test_lists_to_fan_out_over_stand_in_params(file: Path):
    stages = yaml.safe_load(file.read_text(encoding="utf-8"))["stages"]
    axes = [axis for stage in stages.values() for axis in stage.get("matrix", {}).values()]
    assert axes
    assert all(isinstance(axis, str) and axis.startswith("${") for axis in axes)


@pytest.mark.parametrize(("path", "model"), SCHEMAS.items(), ids=map(str, SCHEMAS))
def test_schemas_in_the_repository_are_the_generated_ones(path: Path, model: type[StudyParams]):
    assert read_json(ROOT / path) == json_schema(model), "run: python -m unequal.tools.schema"


@pytest.mark.parametrize("preset", sorted((ROOT / "presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_presets_are_whole_and_sound(preset: Path):
    if preset.name not in LATENT_PRESETS:
        read_pipeline_params(preset)


@pytest.mark.parametrize("name", LATENT_PRESETS)
def test_presets_for_latents_hold_what_their_study_reads(name: str):
    preset, study = ROOT / "presets" / name, ROOT / "studies/latent/params.yaml"
    params = read_study_params(preset)
    assert params.autoencoder is not None
    assert set(read_yaml(preset)) == set(read_yaml(study))
    for instance in instances():
        if instance.folder == Path("studies/latent"):
            instance.command.settings.read(preset, **instance.options)


@pytest.mark.parametrize("study", sorted((ROOT / "studies").glob("*/params.yaml")), ids=lambda path: path.parent.name)
def test_studies_are_sound(study: Path):
    read_params(study)
