"""Declarations: variants as changes of settings, contrasts by what differs, and refusals in one line."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from params_files import DELETE, edited

from unequal.errors import UserError
from unequal.experiments.declaration import Declared, changed, differences

TINY = Path(__file__).with_name("tiny") / "params.yaml"
UNIFORM = {"density": "uniform"}


def declared(folder: Path, **edits: Any) -> Declared:
    return Declared.read(edited(TINY, {key.replace("__", "."): value for key, value in edits.items()}, folder))


def test_a_variant_is_the_file_with_its_changes(tmp_path):
    found = declared(tmp_path)
    assert found.variants["epsilon"].base.prediction == "epsilon"
    assert found.variants["v"].base.prediction == "v_prediction"
    assert found.variants["v"].base.images == found.variants["epsilon"].base.images
    assert found.variants["few_steps"].sampling.steps == 3
    joint, experts = (found.variants[name].plan for name in ("joint", "experts"))
    assert (joint.groups.kind, experts.groups.kind) == ("whole", "snr")
    assert experts.recipe == joint.recipe


def test_a_contrast_is_named_by_what_differs(tmp_path):
    found = declared(tmp_path)
    assert found.named("v", "epsilon") == "prediction: v_prediction, not epsilon"
    assert found.named("few_steps", "epsilon") == "sampling.steps: 3, not 5"
    assert found.named("experts", "joint") == "plan.groups: snr, not whole"
    assert found.named("joint", "epsilon").startswith("plan: ")
    # Whatever the variants are called.
    renamed = {"a": {}, "b": {"recipes.base.prediction": "v_prediction"}}
    again = declared(tmp_path, experiment__variants=renamed, experiment__contrasts=[["b", "a"]])
    assert again.named("b", "a") == found.named("v", "epsilon")


def test_what_differs_in_sampling_alone_is_trained_once(tmp_path):
    found = declared(tmp_path)
    trained = {name: found.training_of(name) for name in found.variants}
    assert trained == {name: name for name in trained} | {"few_steps": "epsilon"}


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"experiment__seeds": [0]}, "experiment.seeds: [0]; allowed: two or more, each once"),
        ({"experiment__seeds": [0, 0]}, "experiment.seeds: [0, 0]; allowed: two or more"),
        ({"experiment__seeds": [0, 10]}, "experiment.rates.seeds: 10 is among `seeds`"),
        ({"experiment__contrasts": [["v", "w"]]}, "experiment.contrasts: 'w' is no variant; there is: epsilon, "),
        ({"experiment__contrasts": [["v", "epsilon"]] * 2}, "experiment.contrasts: one stands twice"),
        ({"experiment__contrasts": [["v", "v"]]}, "contrasts: [v, v]: their settings do not differ"),
        ({"experiment__contrasts": []}, "experiment.contrasts"),
        ({"experiment__endpoints": {"fid": None}}, "experiment.endpoints.fid"),
        ({"experiment__endpoints": {"kid": 0.1}}, "experiment.endpoints"),
        ({"experiment__endpoints": {"fid": 0.0}}, "experiment.endpoints.fid"),
        ({"experiment__endpoints": DELETE}, "experiment.endpoints: missing"),
        ({"experiment__rates__factors": [1.0]}, "experiment.rates.factors"),
        ({"experiment__variants__v_rate_0": {}}, "variants.v_rate_0: the name of"),
        ({"experiment__variants__v": {"like": "w"}}, "experiment.variants.v.like: 'w'; allowed: another variant"),
        ({"experiment__variants__joint": {"like": "experts"}}, ".like: "),
        ({"experiment__variants__v": {"data.holdout": 0.5}}, "variants.v: 'data.holdout': variants do not differ"),
        ({"experiment__variants__v": {"plan.groups": None}}, "variants.v: 'plan.groups': there is no section 'plan'"),
        ({"experiment__variants__v": {"sampling.step": 3}}, "experiment.variants.v: sampling.step: unknown key"),
        ({"experiment__variants__v": {"sampling.steps": 51}}, "experiment.variants.v: sampling.steps: 51 steps of 50"),
        ({"experiment__variants__v": {"recipes.base.images": 8}}, "experiment.variants.v: "),
        ({"experiment__variants__v": {"network.pretrained": "a/b"}}, "variants.v: network.pretrained: 'a/b'"),
        ({"experiment__variants__three_heads": {"recipes.base.prediction": "mixed"}}, "variants.three_heads: "),
    ],
)  # fmt: skip
def test_refusals_name_the_key(tmp_path, edits, said):
    changes = {"experiment__variants__epsilon": {}} | edits
    with pytest.raises(UserError) as caught:
        declared(tmp_path, **changes)
    assert str(caught.value).count("\n") == 0
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "A", "../up", "a.b", "$(id)", "a\nb"])
def test_names_of_variants_are_plain(tmp_path, name):
    with pytest.raises(UserError, match=r"experiment\.variants"):
        declared(tmp_path, experiment__variants={name: {}, "epsilon": {}}, experiment__contrasts=[["epsilon", name]])


def test_a_change_replaces_a_whole_value():
    document = {"recipes": {"base": {"sampler": {"density": "logit_normal", "mean": 0.0}}}}
    found = changed(document, "recipes.base.sampler", UNIFORM, "here")
    assert found["recipes"]["base"]["sampler"] == UNIFORM
    assert document["recipes"]["base"]["sampler"]["density"] == "logit_normal"
    assert "below" in refusal(changed, document, "seed", 1, "here")


DOCUMENTS = st.recursive(
    st.integers(0, 2), lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3), max_leaves=8
)


@given(DOCUMENTS, DOCUMENTS)
def test_differences_are_none_for_equals_alone_and_mirror(one, other):
    found = dict(differences(one, other))
    assert (not found) == (one == other)
    assert {key: pair[::-1] for key, pair in found.items()} == dict(differences(other, one))
    assert not dict(differences(one, one))
