"""The fingerprint of a program's code, in a small project and in this one."""

from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from one_line import refusal

from unequal.code import DISTRIBUTIONS, ROOT, Fingerprint, fingerprint, module_of
from unequal.pipeline.fingerprint import programs, write_fingerprints

FILES = {
    "stages/__init__.py": "",
    "stages/draw.py": "from unequal.shapes import circle\nfrom unequal.pipeline.stage import stage\n",
    "stages/write.py": "def main():\n    from unequal.texts import letters\n",
    "unequal/__init__.py": "",
    "unequal/shapes/__init__.py": "",
    "unequal/shapes/circle.py": "import numpy as np\nfrom ..numbers import pi\n\ndef area(r):\n    return pi * r**2\n",
    "unequal/numbers.py": "import math\npi = math.pi\n",
    "unequal/texts/__init__.py": "",
    "unequal/texts/letters.py": "import yaml\nfrom pathlib import Path\nTEXT = 'letter.md'\n",
    "unequal/texts/letter.md": "Dear reader\n",
    "unequal/texts/README.md": "Letters\n",
    "unequal/typed.py": "",
    "unequal/pipeline/__init__.py": "",
    "unequal/pipeline/stage.py": "import torch\nfrom unequal.hidden import x\n",
    "unequal/hidden.py": "x = 1\n",
    "dvc.yaml": (
        "stages:\n  code: {cmd: python -m unequal.pipeline.fingerprint}\n  draw: {cmd: python -m stages.draw}\n"
        "  write: {cmd: 'env PYTHONPATH=. python -P -m stages.write --to you'}\n"
        "  more: {cmd: python -m stages.write --to me}\n"
    ),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of(project: Path, program: str) -> Fingerprint:
    return fingerprint(project / "stages" / f"{program}.py", project)


def test_what_a_program_imports_counts_with_the_packages_on_the_way(project):
    found = of(project, "draw")
    assert list(found["modules"]) == [
        "stages/__init__.py",
        "stages/draw.py",
        "unequal/__init__.py",
        "unequal/numbers.py",
        "unequal/shapes/__init__.py",
        "unequal/shapes/circle.py",
    ]
    assert found["texts"] == {}
    assert list(found["libraries"]) == ["numpy"]


def test_lazy_imports_and_named_texts_count(project):
    found = of(project, "write")
    assert "unequal/texts/letters.py" in found["modules"]
    assert list(found["texts"]) == ["unequal/texts/letter.md"]
    assert list(found["libraries"]) == ["yaml"]


CIRCLE = FILES["unequal/shapes/circle.py"]
TYPED = f"from typing import TYPE_CHECKING\n{FILES['unequal/numbers.py']}"


@pytest.mark.parametrize(
    ("file", "text", "reached"),
    [
        ("unequal/shapes/circle.py", f"# The area.\n{CIRCLE}", set()),
        ("unequal/shapes/circle.py", CIRCLE.replace("(r):", "(r):\n    'Of a circle.'"), set()),
        ("unequal/numbers.py", TYPED, set()),
        ("unequal/pipeline/stage.py", "import torch\n", set()),
        ("unequal/hidden.py", "x = 2\n", set()),
        ("unequal/texts/README.md", "More letters\n", set()),
        ("unequal/shapes/circle.py", CIRCLE.replace("r**2", "r**3"), {"draw"}),
        ("unequal/numbers.py", "pi = 3\n", {"draw"}),
        ("unequal/texts/letter.md", "Dear readers\n", {"write"}),
        ("unequal/__init__.py", "import warnings\n", {"draw", "write"}),
        ("stages/write.py", FILES["stages/write.py"].replace("letters", "letters as l"), {"write"}),
    ],
)
def test_an_edit_makes_stale_what_it_can_reach_alone(project, file, text, reached):
    (project / "unequal/numbers.py").write_text(TYPED)
    before = {name: of(project, name) for name in ("draw", "write")}
    (project / file).write_text(text)
    assert {name for name, code in before.items() if of(project, name) != code} == reached


def test_imports_for_types_alone_do_not_count(project):
    typed = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from unequal.typed import T\nelse:\n    import yaml\n"
    )
    (project / "unequal/numbers.py").write_text(typed)
    found = of(project, "draw")
    assert "unequal/typed.py" not in found["modules"]
    assert "yaml" in found["libraries"]


def test_another_version_of_a_library_is_noticed_and_another_build_is_not(project, monkeypatch):
    codes = []
    for version in ("8.1.0+cpu", "8.1.0+cu128", "8.2.0+cu128"):
        metadata = project / f"site-{version}/numpy-{version}.dist-info/METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Name: numpy\nVersion: {version}\n")
        monkeypatch.syspath_prepend(metadata.parents[1])
        codes.append(of(project, "draw"))
    assert codes[0]["libraries"] == {"numpy": "8.1.0"}
    assert codes[0] == codes[1] != codes[2]


def test_a_file_is_written_for_each_program_and_again_only_where_it_changes(project):
    assert [line.split(": ")[1] for line in write_fingerprints(Path("dvc.yaml"), project)] == ["new", "new"]
    before = {path: path.stat().st_mtime_ns for path in Path("artifacts/code").iterdir()}
    assert sorted(path.name for path in before) == ["draw.json", "write.json"]
    assert write_fingerprints(Path("dvc.yaml"), project) == []
    assert {path: path.stat().st_mtime_ns for path in before} == before
    Path("unequal/numbers.py").write_text("pi = 3\n")
    assert write_fingerprints(Path("dvc.yaml"), project) == ["artifacts/code/draw.json: unequal/numbers.py"]
    assert Path("artifacts/code/write.json").stat().st_mtime_ns == before[Path("artifacts/code/write.json")]
    Path("dvc.yaml").write_text("stages: {draw: {cmd: python -m stages.draw}}")
    assert write_fingerprints(Path("dvc.yaml"), project) == ["artifacts/code/write.json: deleted"]
    assert [path.name for path in Path("artifacts/code").iterdir()] == ["draw.json"]


@pytest.mark.parametrize(
    ("stages", "complaint"),
    [
        ("{draw: {cmd: echo}}", "dvc.yaml: draw: the command starts no program by `python -m`"),
        ("{draw: {cmd: python -m stages.draw}, b: {cmd: python -m a.draw}}", "b: there are two programs named draw"),
        ("{draw: {cmd: python -m stages.lost}}", "dvc.yaml: there is no program stages/lost.py"),
    ],
)
def test_what_names_no_program_is_refused(project, stages, complaint):
    Path("dvc.yaml").write_text(f"stages: {stages}")
    assert complaint in refusal(write_fingerprints, Path("dvc.yaml"), project)


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.slow
def test_every_program_counts_distributions_that_are_installed_and_what_figures_are_written_with():
    graphs = [ROOT / "dvc.yaml", *ROOT.glob("studies/**/dvc.yaml")]
    codes = {program: fingerprint(ROOT / program) for graph in graphs for program in programs(graph).values()}
    installed = packages_distributions()
    libraries = {name for code in codes.values() for name in code["libraries"]}
    assert {name for name in libraries if name not in installed} == set()
    named = {name: DISTRIBUTIONS.get(name, name) for name in libraries}
    assert {n for n, d in named.items() if plain(d) not in map(plain, installed[n])} == set()
    writing = {program for program in codes if program.stem != "check_params"}  # a gate writes none
    assert {program for program in writing if "unequal/runtime/files.py" not in codes[program]["modules"]} == set()


def test_how_a_training_is_stopped_and_shared_does_not_count():
    modules = fingerprint(ROOT / "stages/train_base.py")["modules"]
    loop = module_of(ROOT / "unequal/training/loop.py", 0, "unequal.training")
    assert "unequal/training/loop.py" in modules
    assert "unequal.runtime.processes" in loop.imports
    assert not [name for name in modules if name.startswith("unequal/pipeline/")]


@pytest.mark.parametrize(
    ("program", "foreign"),
    [("train_base", ("prun", "mix", "merg", "expert")), ("train_mixed", ("prun",)), ("finetune_slots", ("prun",))],
)
def test_an_edit_of_what_a_program_never_does_leaves_it_fresh(program, foreign):
    found = fingerprint(ROOT / f"stages/{program}.py")
    names = [name for names in found.values() for name in names]
    assert [name for name in names if any(part in name for part in foreign)] == []


@pytest.mark.parametrize("program", ["finetune_groups", "evaluate_fid", "prune"])
def test_what_meets_pruned_networks_counts_what_rebuilds_them(program):
    found = fingerprint(ROOT / f"stages/{program}.py")
    assert {"unequal/models/pruned.py", "unequal/models/backbones/unet2d/pruning.py"} <= set(found["modules"])
    assert "torch_pruning" in found["libraries"]


def test_libraries_next_to_an_installed_wheel_are_libraries(tmp_path):
    root = tmp_path / "site-packages"
    for name, text in {"unequal/draw.py": "import numpy\nimport unequal.shape\n", "unequal/shape.py": ""}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "numpy").mkdir()
    (root / "numpy/__init__.py").write_text("import numpy.core\n")
    found = fingerprint(root / "unequal/draw.py", root)
    assert list(found["modules"]) == ["unequal/draw.py", "unequal/shape.py"]
    assert list(found["libraries"]) == ["numpy"]
