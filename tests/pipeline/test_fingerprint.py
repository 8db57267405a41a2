"""Code files of this project's stages: planted edits in a copy of the code make stale what computes with them alone."""

import ast
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from graph import ROOT, instances
from one_line import refusal

from unequal.pipeline import fingerprint
from unequal.pipeline.definitions import FORMULAS, Project
from unequal.pipeline.fingerprint import (
    CODE,
    KEYS,
    content_of,
    current_code,
    default_strings,
    differences,
    started_with,
    strings_in,
    write_code,
)
from unequal.pipeline.graph import stages_of
from unequal.runtime.files import read_json
from unequal.settings.strict import read_yaml

GRAPH = Path("dvc.yaml")


@pytest.fixture(scope="module")
def stages():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return stages_of(GRAPH)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the code, which each test puts back."""
    target = tmp_path_factory.mktemp("code")
    for name in ("unequal", "stages"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.fixture
def codes(stages, copy, monkeypatch) -> Callable[[], dict[str, dict]]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(fingerprint, "stages_of", lambda graph: stages)
    default_strings.cache_clear()
    return lambda: current_code(GRAPH, copy)


@pytest.fixture(scope="module")
def before(stages, copy):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(fingerprint, "stages_of", lambda graph: stages)
        return current_code(GRAPH, copy)


def edited(file: Path, old: str, new: str) -> str:
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file}: {old}"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    return text


def changed(before: dict[str, dict], after: dict[str, dict]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


#: The package's own words: one edit of each kind that must not count.
SAYING = (
    ("unequal/training/optimizer.py", '"""', '"""Here: '),
    ("unequal/training/loop.py", "import", "# One.\nimport"),
    ("unequal/settings/complaints.py", "whole number", "integer"),
    ("unequal/errors.py", "def say(", "EDITED = 1\n\n\ndef say("),
    ("unequal/runtime/progress.py", "SECONDS_BETWEEN = 30.0", "SECONDS_BETWEEN = 20.0"),
    ("unequal/runtime/files.py", "CHUNK_BYTES = 1 << 20", "CHUNK_BYTES = 1 << 19"),
    ("unequal/pipeline/program.py", "QUOTED = 160", "QUOTED = 80"),
    ("unequal/report/drawing.py", "INK", "EDITED = 1\nINK"),
    ("unequal/cli/sample.py", "import", "EDITED = 1\nimport"),
    ("unequal/timesteps/weights.py", "WEIGHTS: ", "def added(x):\n    return x\n\n\nWEIGHTS: "),
)


def test_words_and_additions_make_no_stage_stale(before, codes, copy):
    saved = {}
    for file, old, new in SAYING:
        saved.setdefault(file, (copy / file).read_text(encoding="utf-8"))
        edited(copy / file, old, new)
    for file in sorted({*(copy / "unequal").rglob("*.py")}):
        if any(part in FORMULAS for part in file.relative_to(copy / "unequal").parts):
            saved.setdefault(str(file.relative_to(copy)), file.read_text(encoding="utf-8"))
            file.write_text(reworded(file.read_text(encoding="utf-8")), encoding="utf-8")
    try:
        assert {name: differences(before[name], one) for name, one in codes().items() if one != before[name]} == {}
    finally:
        for file, text in saved.items():
            (copy / file).write_text(text, encoding="utf-8")


class Reworded(ast.NodeTransformer):
    """Another message in every `raise`, other annotations, other names of locals."""

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [ast.Constant("other words")]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = ast.Name("object", ast.Load()) if node.annotation else None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = ast.Name("object", ast.Load()) if node.returns else None
        return self.generic_visit(node)


def renamed(node: ast.stmt) -> ast.stmt:
    """Give the locals of a function other names."""
    inner = list(ast.walk(node)) if isinstance(node, ast.FunctionDef) else []
    fixed = {one.arg for one in inner if isinstance(one, ast.arg)}
    fixed |= {name for one in inner if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
    stored = {one.id for one in inner if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for one in inner:
        if isinstance(one, ast.Name) and one.id in stored - fixed:
            one.id = f"other_{one.id}"
    return node


def reworded(text: str) -> str:
    tree = ast.parse(text)
    tree.body = [renamed(Reworded().visit(one)) for one in tree.body]
    return ast.unparse(ast.fix_missing_locations(tree))


SCORING = ("evaluate_fid", "evaluate_reference")
TRAINING = ("train_base", "train_mixed", "train_recipe", "finetune_slots", "finetune_groups")


@pytest.mark.parametrize(
    ("file", "old", "new", "reached"),
    [
        (
            "unequal/evaluation/distances.py",
            "(len(features) - 1)",
            "len(features)",
            {"evaluate_fid", "evaluate_reference"},
        ),
        ("unequal/training/optimizer.py", "FINAL_SHARE = ", "FINAL_SHARE = 2 * ", {*TRAINING, "prune"}),
        ("unequal/experts/fit.py", "return ", "return 0 or ", {"prune"}),
    ],
)
def test_an_edited_formula_makes_stale_the_stages_that_use_it(before, codes, copy, file, old, new, reached):
    text = edited(copy / file, old, new)
    try:
        programs = {name.split("/")[0] for name in changed(before, codes())}  # of all instances
        assert programs & {"prepare_data", "report", "compute_slots"} == set()
        assert programs == reached
    finally:
        (copy / file).write_text(text, encoding="utf-8")


def test_code_files_are_those_that_stages_declare_and_that_they_find_by_their_options(before):
    for one in instances(Path()):
        declared = {dep for dep in one.deps if dep.startswith(f"{CODE}/")}
        if one.program == "stages.check_params":
            assert not declared
            continue
        options = one.command.make_context(one.name, [w for k, v in one.options.items() for w in (f"--{k}", v)]).params
        assert declared == {str(fingerprint.code_file(one.source.stem, one.command.named(options)))}, one.name
    assert {f"{CODE}/{name}.json" for name in before} == {d for i in instances(Path()) for d in i.deps if "/code/" in d}


def test_a_stage_finds_the_code_that_the_engine_has_found(before, copy):
    project = Project(copy)
    for name, content in before.items():
        assert content_of(project, copy / f"stages/{name.split('/')[0]}.py", content[KEYS]) == content, name


@pytest.fixture
def project(copy, tmp_path, monkeypatch):
    """A graph of two stages of the copied code."""
    monkeypatch.chdir(tmp_path)
    os.makedirs(".dvc")
    shutil.copy(ROOT / "params.yaml", "params.yaml")
    Path(".dvc/config").write_text("[core]\n    no_scm = true\n")
    Path("dvc.yaml").write_text(
        "stages:\n"
        "  data: {cmd: python -m stages.prepare_data, deps: [artifacts/code/prepare_data.json], outs: [a]}\n"
        "  sampler: {cmd: python -m stages.build_sampler --recipe longer, outs: [b], deps: [a, "
        "artifacts/code/build_sampler/longer.json]}\n"
    )
    return tmp_path


def test_a_file_is_written_again_only_where_its_code_changes(project, copy):
    assert [line.split(": ")[1] for line in write_code(GRAPH, copy)] == ["new", "new"]
    times = {file: file.stat().st_mtime_ns for file in CODE.rglob("*.json")}
    assert write_code(GRAPH, copy) == []
    text = edited(
        copy / "unequal/timesteps/samplers.py", "def normalised", "def normalised_too(): ...\n\n\ndef normalised"
    )
    assert write_code(GRAPH, copy) == []
    (copy / "unequal/timesteps/samplers.py").write_text(text)
    assert {file: file.stat().st_mtime_ns for file in times} == times
    text = edited(copy / "stages/build_sampler.py", "np.min", "np.max")
    try:
        assert write_code(GRAPH, copy) == [f"{CODE}/build_sampler/longer.json: main"]
    finally:
        (copy / "stages/build_sampler.py").write_text(text)
    GRAPH.write_text("stages: {}")
    assert [line.split(": ")[1] for line in write_code(GRAPH, copy)] == ["deleted", "deleted"]


@pytest.mark.parametrize(
    ("command", "complaint"),
    [("echo", "starts no program by `python -m`"), ("python -m stages.lost", "there is no program stages/lost.py")],
)
def test_what_names_no_program_is_refused(project, copy, command, complaint):
    GRAPH.write_text(f"stages: {{draw: {{cmd: {command}, deps: [{CODE}/draw.json]}}}}")
    assert complaint in refusal(write_code, GRAPH, copy)


def test_a_stage_that_starts_with_edited_code_says_so_and_writes_its_own(project, copy, capsys):
    write_code(GRAPH, copy)
    program = copy / "stages/build_sampler.py"
    file = started_with(program, {"recipe": "longer"}, copy)
    assert capsys.readouterr().err == ""
    old, text = read_json(file), edited(program, "np.min", "np.max")
    try:
        assert started_with(program, {"recipe": "longer"}, copy) == file
        line = capsys.readouterr().err
        assert line.startswith("build_sampler: code edited since the engine began (main)") and line.count("\n") == 1
        assert differences(old, read_json(file)) == ["main"]
    finally:
        program.write_text(text)


def test_texts_of_settings_are_their_values_and_keys():
    assert set(strings_in({"a": ["b", {"c": 1}], "d": None})) == {"a", "b", "c", "d"}
    assert "longer" in set(strings_in(read_yaml(ROOT / "params.yaml")))
