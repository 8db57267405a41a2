"""dvc.yaml declares exactly what its stages read: settings, code, inputs."""

import ast
import re
import subprocess
from inspect import Parameter, signature
from pathlib import Path

import pytest
import yaml
from graph import FOLDERS, ROOT, Instance, instances, laid, model_of, pipeline_presets, telling_instances
from schemas import strings

from unequal.pipeline.fingerprint import CODE
from unequal.pipeline.params_files import SCHEMA, json_schema, read_params
from unequal.pipeline.sources import KEYS, SOURCES, sources
from unequal.runtime.files import read_json
from unequal.settings.params import Params
from unequal.settings.values import FORMAT

each_graph = pytest.mark.parametrize("folder", FOLDERS, ids=str)


@each_graph
def test_a_stage_declares_the_settings_that_it_reads(folder):
    # A stage is handed an object of its settings' type and nothing else of params.yaml.
    for one in telling_instances(folder):
        read = set(one.command.settings.keys(**one.options).values())
        of_sources = {key for key in read if f"{SOURCES}/{key.replace('.', '/')}.json" in one.deps}
        assert read == one.params | of_sources, one.name


@each_graph
def test_a_section_with_a_path_of_this_machine_is_no_parameter_of_its_reader(folder):
    for one in telling_instances(folder):
        named = {dep.removeprefix(f"{SOURCES}/").removesuffix(".json").replace("/", ".") for dep in one.deps}
        # Of a plan, pruning's alone.
        assert not {name for name in named & one.params if not name.startswith("plans.")}, one.name


@each_graph
def test_a_stage_can_read_its_settings(folder, monkeypatch):
    monkeypatch.chdir(laid(folder))
    for one in telling_instances(folder):
        one.command.settings.read(**one.options)


@each_graph
def test_a_stage_declares_its_program_as_its_code(folder):
    for one in telling_instances(folder):
        code = {dep for dep in one.deps if dep.startswith(f"{CODE}/{one.source.stem}")}
        assert len(code) == 1 or one.source.stem == "check_params", one.name


@each_graph
def test_a_program_ends_with_main_which_runs_as_soon_as_it_is_defined(folder):
    for source in {one.source for one in telling_instances(folder)}:
        last = ast.parse((ROOT / source).read_text(encoding="utf-8")).body[-1]
        name = last.name if isinstance(last, ast.FunctionDef) else ast.unparse(last.targets[0])
        assert name == "main", source


@each_graph
def test_the_code_is_brought_up_to_date_in_every_run(folder):
    stage = yaml.safe_load((laid(folder) / "dvc.yaml").read_text(encoding="utf-8"))["stages"]["code"]
    assert stage["always_changed"] is True
    assert "deps" not in stage
    assert stage["outs"] == [{str(one): {"cache": False, "persist": True}} for one in (CODE, SOURCES)]


def inputs_in_code(instance: Instance) -> list[str]:
    """Paths that `run.input(…)` and `run.source(…)` name; `*` stands for the rest where a part is not an option."""
    function = instance.command.function
    parameters = signature(function).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not Parameter.empty}
    found = []
    for node in ast.walk(ast.parse(Path(function.__code__.co_filename).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("run.input", "run.source"):
            expression = ast.unparse(node.args[0])
            form = f"{SOURCES}/{{}}.json" if ast.unparse(node.func) == "run.source" else "{}"
            try:
                # Our own source, options as names.
                said = eval(expression, {}, defaults | instance.options)
            except NameError:
                said = expression.split("'")[1].split("{")[0] + "*"
            found.append(form.format(said))
    return found


@each_graph
def test_a_stage_declares_the_files_that_it_reads(folder):
    for one in telling_instances(folder):
        files = inputs_in_code(one)
        declared = {dep for dep in one.deps if not dep.startswith(f"{CODE}/")}
        declared -= {"artifacts/params_checked.json", "artifacts/tries_chosen.json"}  # gates are waited for, not read
        unknown = [f for f in files if not any(f in (dep, f"{dep}/*") or f.startswith(f"{dep}/") for dep in declared)]
        assert unknown == [], one.name
        program = (ROOT / one.source).read_text(encoding="utf-8")
        if re.search(r"run\.input,|write_report\(|Measuring\.of\(run", program):
            continue  # the stage hands `run.input` on: what is read then does not stand in its own file
        assert [dep for dep in declared if not any(f == dep or f.startswith(f"{dep}/") for f in files)] == [], one.name


@each_graph
def test_a_key_that_names_what_lies_outside_has_its_file_and_its_reader(folder):
    """Found by walking the schema: none can be added without."""
    here = instances(folder)
    read = {dep.removeprefix(f"{SOURCES}/") for i in here for dep in i.deps if dep.startswith(f"{SOURCES}/")}
    programs = {i.program for i in here}
    declared = {f"{name}.json" for name in sources(yaml.safe_load((laid(folder) / "params.yaml").read_text()))}
    used = {name for name in declared if programs & readers(name, here)}
    assert read == used


def readers(name: str, here: list[Instance]) -> set[str]:
    section = name.partition(".")[0].partition("/")[0]
    own = {i.program for i in here if section in {key.partition(".")[0] for key in i.params}}
    return READERS.get(section, own)


#: Section of the pipeline's params.yaml → programs that read what its key names.
READERS = {
    "data": {"stages.prepare_data"},
    "network": {"stages.train_base"},
    "extractor": {"stages.build_extractor"},
    "pruning": {"stages.prune"},
    "plans": {"unequal.experiments.stages.continue_base"},
}


@each_graph
def test_every_key_that_names_what_lies_outside_is_known(folder):
    outside = {place for place, node in strings(json_schema(model_of(folder))) if node.get("format") == FORMAT}
    assert outside <= set(KEYS)
    assert {"data.path", "network.pretrained"} <= outside


@each_graph
def test_commands_take_a_path_with_blanks(folder, monkeypatch):
    document = yaml.safe_load((laid(folder) / "dvc.yaml").read_text(encoding="utf-8"))
    monkeypatch.setenv("PYTHONPATH", "/a place/with blanks")
    start = {name: value for one in document.get("vars", []) for name, value in one.items()}.get("python", "python")
    shown = subprocess.run(["sh", "-c", f"printf '%s\\n' {start}"], capture_output=True, text=True, check=True).stdout
    above = {f"PYTHONPATH={up}:/a place/with blanks" for up in ("../..", "../..:../../..")}
    assert set(shown.split("\n")) <= {"env", *above, "python", "-P", ""}


@each_graph
def test_stages_say_what_they_are_and_fan_out_over_lists_of_params(folder):
    stages = yaml.safe_load((laid(folder) / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert [name for name, stage in stages.items() if not stage.get("desc")] == []
    axes = [axis for stage in stages.values() for axis in stage.get("matrix", {}).values()]
    assert all(isinstance(axis, str) and axis.startswith("${") for axis in axes)


def test_the_schema_in_the_repository_has_all_sections():
    committed, generated = read_json(ROOT / SCHEMA), json_schema(Params)
    assert committed["properties"].keys() == generated["properties"].keys(), "unequal schema --out params.schema.json"
    assert len(pipeline_presets()) > 5


@each_graph
def test_every_graph_has_sound_params(folder):
    read_params(laid(folder) / "params.yaml")


FILES = [*sorted((ROOT / "presets").glob("*.yaml")), *sorted(ROOT.glob("studies/latent/*.yaml"))]
COMPARING = [path for path in FILES if "\nvariants:" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", COMPARING, ids=lambda path: path.name)
def test_what_is_compared_is_profiled_too(path):
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert not set(params["scored_models"]) - set(params["profiled_models"])


def test_the_clones_settings_are_the_digits_preset():
    """Read the committed settings: a user may have edited the file."""
    texts = []
    for name in ("params.yaml", "presets/digits.yaml"):
        shown = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True, check=False)
        if shown.returncode:
            pytest.skip("needs the clone's git")
        texts.append(shown.stdout.partition("\n")[2])
    assert texts[0] == texts[1]
