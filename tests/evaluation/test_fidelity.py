"""Scores against closed forms and another library, their refusals, and the extractors behind them."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from one_line import refusal
from pickles import Trap
from scipy.linalg import sqrtm
from sklearn.neighbors import NearestNeighbors
from torch import nn
from torch_fidelity import feature_extractor_inceptionv3 as inception

from stages.build_extractor import copy_tensors
from unequal.evaluation import distances, fidelity
from unequal.evaluation.classifier import Classifier, save_classifier
from unequal.evaluation.fidelity import CLASSIFIER as WEIGHTS
from unequal.evaluation.fidelity import FACTS, INCEPTION, REFERENCES, BuiltExtractor, Scorer, Scores, spread
from unequal.evaluation.inception import inception_of
from unequal.runtime.files import content_hash

CPU = torch.device("cpu")
FEATURES = 6


def pictures(count: int, seed: int, brightest: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, brightest, (count, 1, 8, 8), dtype=np.uint8)


def score(images: np.ndarray, reference: np.ndarray, *chosen: Any, **further: Any) -> Scores:
    return Scorer(reference, *chosen, **further)(images)


def classifier() -> Classifier:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Classifier(1, 8, FEATURES, 10).requires_grad_(False)
    net.body[8].weight *= 100
    return net


@pytest.fixture
def extractor(tmp_path):
    save_classifier(tmp_path / WEIGHTS, classifier())
    digest = content_hash(tmp_path / WEIGHTS)
    facts = {"kind": "classifier", "features": FEATURES, "weights": WEIGHTS, "weights_sha256": digest}
    (tmp_path / FACTS).write_text(json.dumps(facts))
    return BuiltExtractor.load(tmp_path)


def frechet(some: np.ndarray, others: np.ndarray) -> float:
    """‖μ1 − μ2‖² + tr(Σ1 + Σ2 − 2·(Σ1Σ2)^½) of the features of images."""
    one, other = features_of(some), features_of(others)
    first, second = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    gap = one.mean(0) - other.mean(0)
    return float(gap @ gap + np.trace(first + second - 2 * sqrtm(first @ second).real))


def features_of(images: np.ndarray) -> np.ndarray:
    return classifier().features(torch.from_numpy(images)).double().numpy()


def test_fid_is_the_frechet_distance_of_the_features_and_of_half_the_images_that_of_the_first_ones(extractor):
    images, reference = pictures(101, 0, 160), pictures(150, 1)
    found = score(images, reference, extractor, CPU, kid_subset=10)
    assert found.fid == pytest.approx(frechet(images, reference), rel=1e-4)
    assert found.fid > 0.01
    assert found.fid_half == pytest.approx(frechet(images[:50], reference), rel=1e-4)
    # Both sets are of one kind: of fewer images the distance is larger.
    alike = score(pictures(40, 0), reference, extractor, CPU, kid_subset=10)
    assert alike.fid_half > 1.5 * alike.fid


def within(some: np.ndarray, others: np.ndarray, neighbourhood: int) -> float:
    """Share of some [n, F] that lie within the balls around others, each as wide as its n-th neighbour is far."""
    radii = NearestNeighbors(n_neighbors=neighbourhood).fit(others).kneighbors()[0][:, -1]
    distances = np.linalg.norm(some[:, None] - others[None], axis=2)
    return float((distances <= radii).any(1).mean())


@pytest.mark.parametrize("neighbourhood", [1, 3, 8])
def test_precision_and_recall_are_shares_within_the_other_sets_neighbourhoods(extractor, neighbourhood):
    """Darker pictures: many lie among the reference, fewer of the reference among them."""
    images, reference = pictures(60, 0, 200), pictures(150, 1)
    found = score(images, reference, extractor, CPU, kid_subset=50, neighbourhood=neighbourhood)
    ours, real = features_of(images), features_of(reference)
    assert found.precision == pytest.approx(within(ours, real, neighbourhood))
    assert found.recall == pytest.approx(within(real, ours, neighbourhood))
    assert 0 < found.recall < found.precision < 1 or neighbourhood != 3


def test_kid_is_the_unbiased_distance_of_cubic_kernels(extractor):
    images, reference = pictures(60, 0, 160), pictures(60, 1)
    found = score(images, reference, extractor, CPU, kid_subset=60)
    x, y = features_of(images), features_of(reference)
    xx, yy, xy = ((a @ b.T / FEATURES + 1) ** 3 for a, b in ((x, x), (y, y), (x, y)))
    pairs = 60 * 59
    expected = (xx.sum() - np.trace(xx)) / pairs + (yy.sum() - np.trace(yy)) / pairs - 2 * xy.mean()
    assert found.kid == pytest.approx(expected, rel=1e-3)
    # With subsets as large as the sets all of them are the same.
    assert found.kid_std == pytest.approx(0, abs=1e-6)


def test_the_reference_is_stored_and_used_again(extractor, tmp_path):
    images, reference = pictures(60, 0, 160), pictures(60, 1)
    cache = (tmp_path / "cache", "reference")
    first = score(images, reference, extractor, CPU, 30, cache=cache)
    assert list((tmp_path / "cache").iterdir())
    # Under the same name the features of the first call are taken, whatever stands there now.
    again = score(images, pictures(60, 2, 20), extractor, CPU, 30, cache=cache)
    assert again == first
    assert score(images, reference, extractor, CPU, 30) == first


def test_the_real_images_are_looked_at_once(extractor, monkeypatch):
    """However many sets are compared with them: their features, their covariance's root, their radii."""
    calls: list[str] = []
    for module, name in ((fidelity, "features_of"), (distances.torch.linalg, "eigh"), (distances, "radii")):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, name=name, own=own, **k: calls.append(name) or own(*a, **k))
    scorer = Scorer(pictures(60, 1), extractor, CPU, 30)
    assert scorer(pictures(40, 0)) != scorer(pictures(40, 2))
    assert {name: calls.count(name) for name in calls} == {"features_of": 3, "eigh": 1, "radii": 3}


def test_references_used_last_stay_stored(extractor, tmp_path):
    images, reference = pictures(60, 0, 160), pictures(60, 1)
    for number in range(REFERENCES):
        score(images, reference, extractor, CPU, 30, cache=(tmp_path / "cache", str(number)))
        os.utime(tmp_path / "cache" / f"{number}.features", (number, number))
    for name in ("0", "another"):  # the oldest is used again
        score(images, reference, extractor, CPU, 30, cache=(tmp_path / "cache", name))
    assert {path.stem for path in (tmp_path / "cache").iterdir()} == {"0", "2", "3", "another"}


@pytest.mark.parametrize(("samples", "reference"), [(5, 50), (50, 5)])
def test_too_few_images_for_the_features_may_be_allowed(extractor, samples, reference):
    sets = pictures(samples, 0), pictures(reference, 1)
    said = refusal(score, *sets, extractor, CPU, kid_subset=2)
    assert "FID: 5 " in said and " for 6 features make the covariance singular; use more, or set" in said
    allowed = score(*sets, extractor, CPU, kid_subset=2, allow_singular=True)
    assert allowed.fid == pytest.approx(frechet(*sets), rel=1e-3)


@pytest.mark.parametrize(
    ("samples", "reference", "chosen", "expected"),
    [
        (20, 30, {"neighbourhood": 20}, "precision: 20 neighbours of one of 20 samples; allowed: 1 … 19, evaluation"),
        (20, 50, {"kid_subset": 30}, "KID: subsets of 30 of 20 samples; allowed: 2 … 20"),
        (50, 20, {"kid_subset": 30}, "KID: subsets of 30 of 20 reference images; allowed: 2 … 20"),
        (20, 20, {"kid_subset": 1}, "KID: subsets of 1 of 20 samples; allowed: 2 … 20"),
        (1, 5, {"kid_subset": 2, "allow_singular": True}, "FID: 1 samples"),
        (5, 1, {"kid_subset": 2, "allow_singular": True}, "FID: 1 reference images"),
    ],
)
def test_sets_that_have_no_scores_are_refused(extractor, samples, reference, chosen, expected):
    sets = pictures(samples, 0), pictures(reference, 1)
    assert refusal(score, *sets, extractor, CPU, **({"kid_subset": 5} | chosen)).startswith(expected)


def test_equal_images_have_a_distance(extractor):
    alike = np.full((10, 1, 8, 8), 7, np.uint8)
    same = score(alike, alike, extractor, CPU, kid_subset=5)
    assert dataclasses.astuple(same) == pytest.approx((0.0, 0.0, 0.0, 0.0, 1.0, 1.0), abs=1e-9)
    assert score(alike, pictures(10, 0), extractor, CPU, kid_subset=5).fid > 0


BUILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no facts": (lambda folder: (folder / FACTS).unlink(), f"{FACTS}: missing"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), f"{WEIGHTS}: missing"),
    "a byte short": (lambda folder: rewrite(folder, lambda one: one[:-1]), f"{WEIGHTS}: altered or cut short"),
    "a byte changed": (lambda folder: rewrite(folder, lambda one: one[:-1] + b"\0"), f"{WEIGHTS}: altered or cut"),
    # It becomes part of the name of a file.
    "a digest that is a path": (
        lambda folder: (folder / FACTS).write_text(json.dumps(PATH)),
        f'{FACTS}: weights_sha256: "../../../x": String should match pattern',
    ),
}
PATH = {"kind": "inception", "features": 2048, "weights": None, "weights_sha256": "../../../x"}


def rewrite(folder: Path, change: Callable[[bytes], bytes]) -> None:
    (folder / WEIGHTS).write_bytes(change((folder / WEIGHTS).read_bytes()))


@pytest.mark.usefixtures("extractor")
@pytest.mark.parametrize("spoiled", BUILT)
def test_a_spoiled_extractor_is_refused(tmp_path, spoiled):
    spoil, said = BUILT[spoiled]
    spoil(tmp_path)
    assert said in refusal(BuiltExtractor.load, tmp_path)


def test_spread_over_seeds():
    rows = [(1.0, 2.0, 0.1, 9.0, 0.5, 0.0), (3.0, 4.0, 0.1, 9.0, 0.5, 0.2), (2.0, 6.0, 0.4, 9.0, 0.5, 0.4)]
    found = spread([Scores(*row) for row in rows])
    means = {"fid_mean": 2.0, "fid_half_mean": 4.0, "kid_mean": 0.2, "precision_mean": 0.5, "recall_mean": 0.2}
    sds = {"fid_sd": 1.0, "fid_half_sd": 2.0, "kid_sd": 0.03**0.5, "precision_sd": 0.0, "recall_sd": 0.2}
    assert found == pytest.approx(means | sds)
    assert spread([Scores(*rows[0])])["fid_sd"] == 0


def random_inception() -> nn.Module:
    """torch-fidelity's network without the weights that it would download."""
    with pytest.MonkeyPatch.context() as monkeypatch, torch.random.fork_rng():
        monkeypatch.setattr(inception, "load_state_dict_from_url", lambda *_, **__: {})
        monkeypatch.setattr(inception.FeatureExtractorInceptionV3, "load_state_dict", lambda *_, **__: None)
        torch.manual_seed(0)
        net = inception.FeatureExtractorInceptionV3("random", ["2048"])
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
    return net


@pytest.mark.slow
def test_inception_from_a_file_of_weights(tmp_path):
    net, path = random_inception(), tmp_path / INCEPTION
    torch.save(net.state_dict(), tmp_path / "weights.pth")
    copy_tensors(tmp_path / "weights.pth", path)
    facts = {"kind": "inception", "features": 2048, "weights": INCEPTION, "weights_sha256": content_hash(path)}
    (tmp_path / FACTS).write_text(json.dumps(facts))
    extractor = BuiltExtractor.load(tmp_path)
    images, reference = pictures(2, 0, 100), pictures(3, 1)
    assert "FID: 2 samples for 2048 features" in refusal(score, images, reference, extractor, CPU, kid_subset=2)
    found = score(images, reference, extractor, CPU, kid_subset=2, allow_singular=True, neighbourhood=1)
    # With so few images tr(Σ1Σ2)^½ is the nuclear norm of their centred features' products.
    x, y = (net(torch.from_numpy(these).expand(-1, 3, -1, -1))[0].double().numpy() for these in (images, reference))
    first, second = ((z - z.mean(0)) / (len(z) - 1) ** 0.5 for z in (x, y))
    gap = x.mean(0) - y.mean(0)
    expected = gap @ gap + (first**2).sum() + (second**2).sum() - 2 * np.linalg.norm(first @ second.T, ord="nuc")
    assert found.fid == pytest.approx(expected, rel=1e-3)
    path.write_bytes(path.read_bytes()[:-1])
    assert f"{INCEPTION}: altered or cut short" in refusal(BuiltExtractor.load, tmp_path)


def test_weights_of_another_network():
    assert "not those of torch-fidelity's Inception" in refusal(inception_of, {"fc.weight": torch.zeros(1)})


def test_no_code_comes_with_weights(tmp_path):
    """The file of the settings and the artifact are both loaded without code."""
    mark = tmp_path / "mark"
    torch.save({"fc.weight": Trap(mark)}, tmp_path / "weights.pth")
    said = refusal(copy_tensors, tmp_path / "weights.pth", tmp_path / INCEPTION)
    assert "weights.pth: no file of bare weights" in said
    for name in ("inception.pth", INCEPTION):
        torch.save({"fc.weight": Trap(mark)}, tmp_path / name)
        facts = {"features": 2048, "weights": name, "weights_sha256": content_hash(tmp_path / name)}
        (tmp_path / FACTS).write_text(json.dumps(facts | {"kind": "inception"}))
        sets = pictures(5, 0), pictures(5, 1)
        refusal(lambda sets=sets: score(*sets, BuiltExtractor.load(tmp_path), CPU, 2, allow_singular=True))
    assert not mark.exists()


def test_no_code_comes_with_a_download(tmp_path, monkeypatch):
    """A folder of downloads may be shared as well."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    torch.save({"fc.weight": Trap(tmp_path / "mark")}, tmp_path / "checkpoints" / Path(inception.URL_INCEPTION_V3).name)
    extractor = BuiltExtractor(kind="inception", features=2048, weights=None, weights_sha256=None)
    said = refusal(score, pictures(5, 0), pictures(5, 1), extractor, CPU, 2, allow_singular=True)
    assert "extractor.weights: null: https://" in said and "Weights only load failed" in said
    assert not (tmp_path / "mark").exists()


def flipped(content: bytes) -> bytes:
    """Change a bit of the features."""
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: b"", flipped])
def test_damaged_features_are_made_again(extractor, tmp_path, damage):
    images, reference, cache = pictures(60, 0, 160), pictures(60, 1), (tmp_path / "cache", "reference")
    first = score(images, reference, extractor, CPU, 30, cache=cache)
    (file,) = cache[0].iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert score(images, reference, extractor, CPU, 30, cache=cache) == first
    assert file.read_bytes() == whole


def test_no_code_comes_with_features(extractor, tmp_path):
    mark = tmp_path / "mark"
    score(pictures(60, 0), pictures(60, 1), extractor, CPU, 30, cache=(tmp_path, "reference"))
    content = np.array([Trap(mark)], dtype=object)
    with (tmp_path / "reference.features").open("wb") as file:
        np.savez(file, features=content, mean=content, covariance=content)
    score(pictures(60, 0), pictures(60, 1), extractor, CPU, 30, cache=(tmp_path, "reference"))
    assert not mark.exists()


@pytest.mark.parametrize("scale", [float("inf"), 1e20])
def test_features_that_are_no_numbers_or_whose_squares_are_none(extractor, scale):
    net = classifier()
    net.scale.fill_(scale)
    save_classifier(Path(extractor.weights or ""), net)
    said = refusal(score, pictures(20, 0), pictures(20, 1), extractor, CPU, 10)
    assert f"features of 20 of 20 images are NaN, infinite or too large by {extractor.label}" in said
