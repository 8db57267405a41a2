"""Values that become part of a command or a path have a pattern that a shell reads as one plain word."""

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from graph import FOLDERS, laid, model_of
from hypothesis import given, settings
from hypothesis import strategies as st
from params_files import edited
from pydantic import TypeAdapter, ValidationError
from schemas import strings

from unequal.errors import UserError
from unequal.pipeline.params_files import json_schema
from unequal.settings.core import Core
from unequal.settings.values import Name

#: Names that a shell, a path, a glob or DVC's own templates would take for more.
BAD = ["x; touch pwned #", "$(touch pwned)", "`id`", "a b", "../up", "/etc", "-h", "", "a\nb", "a\x00b", "*", "${seed}"]
BAD += ["x" * 300, "A", "ä", "a.b", "~", "a|b", "a>b", "a&b", "'", '"', "a\\b", "1;", "base\n"]
#: Text that is none: it reaches neither a command nor a path of ours.
FREE = re.compile(
    r"runtime\.tracking\.(uri|experiment|logger)|.*decider\.(model|base_url|api_key_env)|experiment\.question"
    r"|subject|data\.source|.*lr_milestones\.\*|.*optimizer\.(name|keywords\.\*)"  # numbers of images, which are keys
)


def axes(graph: Path) -> set[str]:
    document = yaml.safe_load(graph.read_text(encoding="utf-8"))
    found = set(re.findall(r"\$\{([^}]+)\}", json.dumps(document["stages"])))
    own = {name for one in document.get("vars", []) if isinstance(one, dict) for name in one}
    return {name for name in found if not name.startswith("item.")} - own


@cache
def nodes(model: type[Core]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for place, node in strings(json_schema(model)):
        found.setdefault(place, []).append(node)
    return found


@pytest.mark.parametrize("folder", {model_of(folder): folder for folder in FOLDERS}.values(), ids=str)
def test_every_string_of_a_schema_is_a_choice_a_name_or_known_to_be_free(folder: Path) -> None:
    model = model_of(folder)
    loose = {
        place
        for place, alternatives in nodes(model).items()
        for node in alternatives
        if not {"enum", "const", "pattern"} & set(node) and not FREE.fullmatch(place)
    }
    assert loose == set()


@pytest.mark.parametrize("folder", [Path(), Path("studies/latent")], ids=str)
def test_what_a_graph_fills_in_is_refused_where_it_is_no_name(folder: Path, tmp_path: Path) -> None:
    """Found by walking the dvc.yaml: lists of names are fed with strings that mean more to a shell."""
    model, place = model_of(folder), laid(folder)
    content = yaml.safe_load((place / "params.yaml").read_text(encoding="utf-8"))
    filled = axes(place / "dvc.yaml")
    assert filled
    for dotted in filled:
        value = content
        for key in dotted.split("."):
            value = value[key]
        with pytest.raises(UserError) as refusal:
            model.read(edited(place / "params.yaml", {dotted: [BAD[0], *list(value)[1:]]}, tmp_path))
        said = str(refusal.value).removeprefix(f"{tmp_path / 'params.yaml'}:")
        assert re.match(rf"\d+: {re.escape(f'{dotted}.0: {json.dumps(BAD[0])}')}[:;] ", said)
        for node in nodes(model).get(dotted, []):
            if "pattern" in node:
                assert [bad for bad in BAD if re.search(node["pattern"].replace("$", r"\Z"), bad)] == []


@settings(max_examples=50, derandomize=True)
@given(text=st.text() | st.from_regex(r"[a-z0-9_/x;$&. -]{1,9}", fullmatch=True))
def test_what_is_a_name_is_one_plain_word_to_a_shell(text: str) -> None:
    try:
        name = TypeAdapter(Name).validate_python(text)
    except ValidationError:
        return
    assert name not in BAD
    assert shlex.quote(name) == name
    assert name.isascii()
    assert ".." not in name and not name.startswith(("-", "/"))
    assert all(0 < len(part) <= 200 for part in name.split("/"))
