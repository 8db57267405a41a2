"""The mathematics works with torch and NumPy alone; what else is missing is said in one line."""

import pytest
from click.testing import CliRunner
from hidden_libraries import ROOT, imported

from unequal import errors
from unequal.cli import main
from unequal.errors import MissingExtra, needs, requirement

#: Modules of these packages and files need nothing else, but for a few.
LIGHT = ("diffusion", "timesteps", "errors", "randomness", "runtime")
NEED_MORE = tuple(f"unequal.runtime.{name}" for name in ("tensor_files", "chunks", "progress"))
#: Modules of other packages that need nothing else either: public classes for any training loop.
PUBLIC = (
    *(f"unequal.evaluation.{name}" for name in ("loss_profile", "validation", "validation_callback")),
    *(f"unequal.models.{name}" for name in ("conditions", "denoiser")),
    "unequal.sampling.experts",
)


def modules() -> list[str]:
    files = sorted((ROOT / "unequal").rglob("*.py"))
    return [".".join(one.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for one in files]


def is_light(name: str) -> bool:
    light = name.split(".")[1:2] in ([], *([package] for package in LIGHT))
    return name in PUBLIC or (light and name not in NEED_MORE)


@pytest.fixture(scope="module")
def alone():
    return imported(["torch", "numpy"], modules())


def test_the_mathematics_needs_torch_and_numpy_alone(alone):
    assert {name: said for name, said in alone["found"].items() if is_light(name) and said} == {}
    assert {"scipy", "pydantic", "diffusers", "mlflow"} <= set(alone["hidden"])
    assert set(alone["loaded"]).isdisjoint(alone["hidden"])


def test_whatever_needs_more_says_so_in_one_line(alone):
    said = {name: text for name, text in alone["found"].items() if not is_light(name)}
    lines = {name: text for name, text in said.items() if text}  # a package may hold modules that need nothing
    assert {name: text for name, text in lines.items() if not text.startswith("MissingExtra: unequal.")} == {}
    assert not any("\n" in text for text in lines.values())
    for name in (
        *NEED_MORE,
        "unequal.evaluation.profiling",
        "unequal.evaluation.fidelity",
        "unequal.models.folder",
        "unequal.training.loop",
    ):
        assert said[name].startswith("MissingExtra"), name
        assert "pip install 'unequal[pipeline]" in said[name]


@pytest.mark.parametrize(
    ("gone", "listed", "refused"),
    [("transformers", {"check", "compare", "suggest"}, "profile"), ("mlflow", {"profile", "suggest"}, "compare")],
)
def test_commands_are_listed_whose_libraries_are_there(gone, listed, refused, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == gone else object())
    done = CliRunner().invoke(main.unequal, ["--help"])
    assert done.exit_code == 0
    shown = {line.split()[0] for line in done.output.partition("Commands:")[2].splitlines() if line.strip()}
    assert listed <= shown <= set(main.SUBCOMMANDS)
    assert refused not in shown
    line = rf"^unequal {refused} needs what is not installed \({gone}\): pip install 'unequal\["
    with pytest.raises(MissingExtra, match=line):
        main.unequal([refused, "x"], standalone_mode=False)


def test_what_is_missing_is_both_an_import_error_and_a_line_for_the_user(monkeypatch):
    monkeypatch.setattr(errors, "requirement", lambda extra: f"unequal[{extra}] @ file:///here.whl")
    line = r"^unequal.some needs what is not installed \(nowhere_to_be_found\): pip install 'unequal\[profile\] @ file"
    with pytest.raises(MissingExtra, match=line) as caught:
        needs("unequal.some", "profile", "numpy", "nowhere_to_be_found")
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ('{"url": "file:///w/unequal-1.whl", "archive_info": {}}', " @ file:///w/unequal-1.whl"),
        ('{"url": "https://h/u.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}', " @ git+https://h/u.git@abc"),
        (None, ""),
    ],
)
def test_an_extra_is_installed_from_where_the_library_came(origin, expected, monkeypatch):
    class Installed:
        def read_text(self, name: str) -> str | None:
            return origin if name == "direct_url.json" else None

    monkeypatch.setattr(errors, "distribution", lambda name: Installed())
    assert requirement("pipeline") == f"unequal[pipeline]{expected}"
