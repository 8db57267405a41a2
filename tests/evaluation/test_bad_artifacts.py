"""Spoiled artifacts: the stage that reads one refuses it in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import Bad, check_refused, cut, table
from small_inputs import GROUPS, SAMPLER, SLOTS, T

from stages import (
    build_sampler,
    compute_slots,
    evaluate_reference,
    finetune_slots,
    group_timesteps,
    prune,
    train_recipe,
)
from unequal.runtime.files import read_json, write_npz

BASE, FLOOR = Path("artifacts/profiles/base.npz"), Path("artifacts/profiles/floor.npz")
SLOT_FILE, GROUP_FILE = Path("artifacts/slots.json"), Path("artifacts/groups.json")
SAMPLER_FILE, EXTRACTOR = Path("artifacts/samplers/longer.json"), Path("artifacts/extractor")
LOSSES = np.random.default_rng(0).gamma(2.0, size=(T, 4)).astype(np.float32)

pytestmark = pytest.mark.usefixtures("small_inputs")


def written(path: Path, content: Any) -> Callable[[], object]:
    return lambda: path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def changed(path: Path, **changes: Any) -> Callable[[], object]:
    return lambda: written(path, read_json(path) | changes)()


def losses(path: Path, table: Any) -> Callable[[], None]:
    return lambda: write_npz(path, train=np.asarray(table), holdout=LOSSES)


def replaced(path: Path) -> Callable[[], None]:
    return lambda: (path.unlink(), path.mkdir())[1]


NOT_FINITE = np.where(np.arange(T)[:, None] == 7, np.nan, LOSSES)

PROFILES: dict[str, Bad] = {
    "cut short": Bad(cut(BASE, 100), f"{BASE}: damaged"),
    "another table": Bad(lambda: write_npz(BASE, holdout=LOSSES), f"{BASE}: no table 'train' in it; make it again"),
    "words": Bad(losses(BASE, [["a", "b"]] * T), f"{BASE}: table 'train' holds no numbers; make it again"),
    "one draw": Bad(losses(BASE, LOSSES[:, :1]), f"{BASE}: losses of shape [50, 1] are no profile"),
    "not a number": Bad(losses(BASE, NOT_FINITE), f"{BASE}: the loss profile holds nan at t = 7; losses are finite"),
    "zero": Bad(losses(BASE, 0 * LOSSES), "the loss profile is 0 at every timestep; there is nothing to split"),
    "fewer timesteps": Bad(losses(BASE, LOSSES[:-1]), "[49, 4] and optimal-denoiser losses of shape [50, 4]"),
    "no floor": Bad(FLOOR.unlink, f"{FLOOR}: missing; an earlier stage makes it"),
    "a floor of fewer draws": Bad(losses(FLOOR, LOSSES[:, :2]), "[50, 4] and optimal-denoiser losses of shape [50, 2]"),
}  # fmt: skip


@table(PROFILES)
def test_a_bad_profile_is_split_into_no_slots(bad):
    bad.spoil()
    check_refused(compute_slots, said=bad.said, outputs=["artifacts/slots.json"])


@table({name: PROFILES[name] for name in ("another table", "fewer timesteps", "no floor")})
def test_a_bad_profile_is_split_into_no_groups(bad):
    bad.spoil()
    check_refused(group_timesteps, said=bad.said, outputs=["artifacts/groups.json"])


SLOT_TABLES: dict[str, Bad] = {
    "a folder for slots": Bad(replaced(SLOT_FILE), f"{SLOT_FILE}: cannot be read: Is a directory"),
    "slots with another key": Bad(changed(SLOT_FILE, version=2), f"{SLOT_FILE}: version: unknown key; allowed here"),
    "slots with a gap": Bad(changed(SLOT_FILE, slots=[[0, 9], [11, 49]]), "do not cover timesteps 0 … 49 once each"),
    "slots of other timesteps": Bad(
        written(SLOT_FILE, SLOTS | {"timesteps": 10, "slots": [[0, 9]]}), "slots of 10 timesteps, the model has 50"
    ),
}
GROUPINGS: dict[str, Bad] = {
    "no group": Bad(changed(GROUP_FILE, groups=[]), f"{GROUP_FILE}: groups"),
    "a limit of nothing": Bad(
        changed(GROUP_FILE, groups=[GROUPS["groups"][0] | {"limit_ratio": 0.0}, GROUPS["groups"][1]]),
        f"{GROUP_FILE}: groups.0.limit_ratio: 0.0; allowed: above 0",
    ),
    "another order": Bad(changed(GROUP_FILE, groups=GROUPS["groups"][::-1]), f"{GROUP_FILE}: "),
    "a gap": Bad(changed(GROUP_FILE, groups=GROUPS["groups"][:1]), "the groups end at t = 9, the model at t = 49"),
}
SAMPLERS: dict[str, Bad] = {
    "nothing": Bad(written(SAMPLER_FILE, None), f"{SAMPLER_FILE}: no settings of a sampler; make it again"),
    "another kind": Bad(
        changed(SAMPLER_FILE, density="gaussian"), f'{SAMPLER_FILE}: sampler.density: "gaussian"; allowed: '
    ),
    "without losses": Bad(
        written(SAMPLER_FILE, {k: v for k, v in SAMPLER.items() if k != "loss"}), "'loss': needs the base's profile"
    ),
    "fewer losses": Bad(changed(SAMPLER_FILE, loss=[1.0]), "the profile has 1 timesteps, the model 50"),
    "losses that are no numbers": Bad(changed(SAMPLER_FILE, loss=[float("nan")] * T), f"{SAMPLER_FILE}: loss.0: NaN"),
    "another number of timesteps": Bad(changed(SAMPLER_FILE, timesteps=9), "made for 9 timesteps, the model has 50"),
}
EXTRACTORS: dict[str, Bad] = {
    "no record": Bad((EXTRACTOR / "extractor.json").unlink, "extractor.json: missing"),
    "weights cut short": Bad(cut(EXTRACTOR / "classifier.safetensors", 200), "classifier.safetensors: altered or cut"),
    "weights elsewhere": Bad(
        changed(EXTRACTOR / "extractor.json", weights="../../params.yaml"), "build the extractor again"
    ),
    "another kind": Bad(changed(EXTRACTOR / "extractor.json", kind="clip"), 'extractor.json: kind: "clip"; allowed: '),
    "the weights of another kind": Bad(
        changed(EXTRACTOR / "extractor.json", kind="inception"), "not those of torch-fidelity's Inception"
    ),
}


@table(SLOT_TABLES)
def test_bad_slots_are_not_trained_on(bad):
    bad.spoil()
    check_refused(finetune_slots, "--recipe", "slot", "--slot", "1", said=bad.said, outputs=["artifacts/models/slot_1"])


def test_a_sampler_is_not_made_of_bad_slots():
    SLOT_TABLES["slots with a gap"].spoil()
    check_refused(build_sampler, "--recipe", "longer", said="do not cover", outputs=[str(SAMPLER_FILE)])


@table(GROUPINGS)
def test_nothing_is_pruned_for_bad_groups(bad):
    bad.spoil()
    check_refused(prune, "--method", "expert", "--group", "0", said=bad.said, outputs=["artifacts/pruned/x"])


@table(SAMPLERS)
def test_a_bad_sampler_draws_nothing(bad):
    bad.spoil()
    check_refused(train_recipe, "--recipe", "longer", said=bad.said, outputs=["artifacts/models/longer"])


@table(EXTRACTORS)
def test_a_bad_extractor_scores_nothing(bad):
    bad.spoil()
    check_refused(evaluate_reference, said=bad.said, outputs=["results/fid/reference.json"])
