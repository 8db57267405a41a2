"""No file that is read brings code with it: every call that could unpickle forbids it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Calls that unpickle unless a word says otherwise, and the value that it must have.
WORDS = {
    "torch.load": ("weights_only", True),
    "torch.hub.load_state_dict_from_url": ("weights_only", True),
    "np.load": ("allow_pickle", False),
}
NEVER = ("pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load", "torch.jit.load", "eval", "exec")


def calls() -> Iterator[tuple[str, ast.Call]]:
    for file in sorted(file for top in ("unequal", "stages", "studies") for file in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def test_every_call_that_could_unpickle_forbids_it():
    seen = set()
    for place, call in calls():
        name = ast.unparse(call.func)
        assert name not in NEVER, place
        if name in WORDS:
            seen.add(name)
            word, value = WORDS[name]
            said = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert said.get(word) == str(value), f"{place}: {name} without {word}={value}"
    assert seen == set(WORDS), "a call that is looked for has another name now"
