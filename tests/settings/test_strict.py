"""Strict reading of settings: exactly the keys asked for, and one clear line for every refusal."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.utils.hydra import apply_overrides
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, PositiveInt
from ruamel.yaml import YAML, YAMLError

from unequal.errors import UserError
from unequal.settings.strict import StageSettings, Strict, key, validate
from unequal.settings.yaml12 import BASE_60, LEADING_ZERO, Yaml12, read_yaml


class Part(Strict):
    """A section."""

    size: PositiveInt
    rate: float = Field(gt=0, le=1)
    steps: PositiveInt | tuple[int, ...] = 1


class Whole(Strict):
    """Sections, one of them named by the user."""

    part: Part
    parts: dict[str, Part] = Field(default_factory=dict)


class StagePart(StageSettings):
    """Settings of a stage."""

    seed: int
    chosen: Part = key("parts.{name}")


@pytest.fixture
def params(tmp_path: Path) -> Path:
    return tmp_path / "params.yaml"


def refusal_of(text: str, path: Path, **options: object) -> str:
    path.write_text(text)
    with pytest.raises(UserError) as refusal:
        StagePart.read(path, **options) if options else validate(Whole, read_yaml(path), path)
    message = str(refusal.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_stage_reads_its_keys_and_not_the_others(params: Path) -> None:
    params.write_text("seed: 3\nparts:\n  one: {size: 2, rate: 0.5}\n  two: nonsense\nother: {never: read}\n")
    settings = StagePart.read(params, name="one")
    assert (settings.seed, settings.chosen) == (3, Part(size=2, rate=0.5))
    assert StagePart.keys(name="one") == {"seed": "seed", "chosen": "parts.one"}


def test_settings_cannot_be_changed_and_lists_become_tuples(params: Path) -> None:
    params.write_text("part: {size: 2, rate: 1, steps: [3, 1]}\n")
    whole = validate(Whole, read_yaml(params), params)
    assert whole.part.steps == (3, 1)
    with pytest.raises(ValueError, match="frozen"):
        whole.part.size = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        # What YAML alone brings; kinds of errors are those of test_complaints.py.
        ("part: {size: true, rate: 0.5}", "part.size: true; allowed: a whole number"),
        ("part: {size: 2, rate: .nan}", "part.rate: NaN; allowed: a finite number"),
        ("part: {size: 2, rate: 2020-01-01}", 'part.rate: "2020-01-01"; allowed: a number'),
        ("part: {size: 2, rate: 0.5, steps: 0}", "part.steps: 0; allowed: above 0 or a list"),
        ("parts: {size: {a: 1}}\npart: {size: 2, rate: 1}", "parts.size.a: unknown key; allowed here: size, rate"),
        ('"a\\e[2Jb": 3', "a\\x1b[2Jb: unknown key; allowed here: part, parts"),
        ('"a\\nb": 3', "a b: unknown key; allowed here: part, parts"),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(params: Path, text: str, complaint: str) -> None:
    assert refusal_of(text, params).startswith(complaint)


@pytest.mark.parametrize("number", ["1e-4", "1.0e-4", "1.E-4", "0.0001", "1"])
def test_numbers_are_read_however_they_are_written(params: Path, number: str) -> None:
    params.write_text(f"part: {{size: 2, rate: {number}}}")
    assert validate(Whole, read_yaml(params), params).part.rate == float(number)


def by_dvc(text: str) -> Any:
    try:
        return YAML(typ="safe").load(f"key: {text}\n")["key"]
    except (YAMLError, ValueError):
        return None


def by_us(text: str) -> Any:
    try:
        return yaml.load(f"key: {text}\n", Yaml12)["key"]
    except yaml.YAMLError:
        return None


WORDS = ["yes", "No", "on", "OFF", "y", "1:3a", "0O7", "0X1F", ".5e3", "inf", "nan", "-.nan", "1e", "e5"]
NUMBERS = ["12", "+12", "-0", "0o17", "0x1F", "0b11", "1_000", "1e-4", "1E4", "12e03", "1.", "1.e3", ".5", "+1.5"]
OTHERS = ["", "~", "null", "Null", "true", "FALSE", "-.INF", ".NaN", "2020-01-01", "!!str 5", "!!int '5'", "!!float 5"]


@pytest.mark.parametrize("text", [*WORDS, *NUMBERS, *OTHERS])
def test_scalars_are_read_as_dvc_reads_them(text: str) -> None:
    assert repr(by_us(text)) == repr(by_dvc(text))
    assert not (text in WORDS and by_us(text) != text)


@given(st.text("0123456789_.eE+-:xobinfaINFtrueyslN~", max_size=7))
@example("0o8")
@example("010")
@example("-01.50")
@example("1:30")
def test_any_scalar_is_read_as_dvc_reads_it(text: str) -> None:
    number = isinstance(by_dvc(text), int | float) and LEADING_ZERO.fullmatch(text)
    if number or BASE_60.fullmatch(text):
        assert by_us(text) is None
    else:
        assert repr(by_us(text)) == repr(by_dvc(text))


MAPPINGS = [
    "a: &x {k: 1}\nb: {<<: *x, k: 2}",
    "a: &x {k: 1}\nb: &y {k: 3, l: 4}\nc: {<<: [*x, *y], m: 5}",
    "a: &x [1, 2]\nb: *x",
    "a: &a {k: 1}\nfirst: {deep: {x: &b {<<: *a, k: 2}}}\nsecond: {<<: *b}",
]


@pytest.mark.parametrize("text", MAPPINGS)
def test_sections_are_repeated_as_dvc_repeats_them(params: Path, text: str) -> None:
    params.write_text(text)
    assert read_yaml(params) == YAML(typ="safe").load(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no settings; expected a mapping of sections"),
        ("seed: [1, 2", "not valid YAML"),
        ("seed: !!python/object:os.system {}", "not valid YAML"),
        ("2020-01-01: 3", "keys must be str"),
        ("part: &part {parts: *part}", "Circular reference"),
        ("seed: 1\nday: 2025-02-30", "not valid YAML: line 2: '2025-02-30' is no !!timestamp"),
        (f"seed: {'1' * 5000}", f"not valid YAML: line 1: '{'1' * 40}' is no !!int, or too long"),
        ("seed: 010.5", "not valid YAML: line 1: '010.5' is octal for some readers of YAML; write it without the"),
        ("seed: 1\npart: 1:30", "not valid YAML: line 2: '1:30' is a number of base 60 for some readers of YAML;"),
        ("seed: 1\npart: 010", "not valid YAML: line 2: '010' is octal for some readers of YAML; write it without"),
        ("seed: 0\nslots:\n  count: 10\n  count: 5\n", "not valid YAML: line 4: key 'count' stands twice in one"),
        ("a: &a {k: 1}\nb: {<<: *a, <<: *a}", "not valid YAML: line 2: key '<<' stands twice in one mapping"),
        (
            "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [{f'*a{n}, ' * 9}]\n" for n in range(9)),
            "not valid YAML: line 7: there are more than 200000 values, those that aliases repeat included",
        ),
        (f"seed: {'[' * 100_000}", "not valid YAML: line 1: sections or lists stand more than 100 deep"),
    ],
)
def test_files_that_hold_no_settings_are_refused(params: Path, text: str, complaint: str) -> None:
    assert refusal_of(text, params).startswith(complaint)


def test_a_missing_file_and_a_binary_one_are_refused(params: Path) -> None:
    with pytest.raises(UserError, match=r"params\.yaml: missing; run from the folder that holds it$"):
        read_yaml(params)
    params.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(UserError, match=r"params\.yaml: not valid YAML"):
        read_yaml(params)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("seed: 1\nparts: {two: {}}", "parts.one: missing; there is: two"),
        ("parts: {one: {size: 1, rate: 1}}", "seed: missing; there is: parts"),
        ("seed: 1\nparts: {one: {size: 1, rate: 7}}", "parts.one.rate: 7; allowed: at most 1"),
    ],
)
def test_what_a_stage_misses_is_named_as_it_stands_in_the_file(params: Path, text: str, complaint: str) -> None:
    assert refusal_of(text, params, name="one").startswith(complaint)


@pytest.mark.parametrize("number", ["0.00005", "5e-7", "0.000000000001", "100000000000000000000.0"])
def test_numbers_are_read_as_dvc_writes_them(tmp_path: Path, number: str) -> None:
    """`dvc exp run -S lr=0.00005` writes 5e-05."""
    (tmp_path / "params.yaml").write_text("training: {lr: 1.0e-3}\n")
    apply_overrides(tmp_path / "params.yaml", [f"training.lr={number}"])
    assert read_yaml(tmp_path / "params.yaml") == {"training": {"lr": float(number)}}
