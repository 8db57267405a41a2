"""FID against its closed form, KID's and FID's refusals, and the extractors behind them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torch import nn
from torch_fidelity import feature_extractor_inceptionv3 as inception

from unequal.errors import UserError
from unequal.evaluation.classifier import Classifier, save_classifier
from unequal.evaluation.fidelity import CLASSIFIER as WEIGHTS
from unequal.evaluation.fidelity import FACTS, Extractor, Scores, score, spread
from unequal.files import content_hash

CPU = torch.device("cpu")
FEATURES = 6


def pictures(count: int, seed: int, brightest: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, brightest, (count, 1, 8, 8), dtype=np.uint8)


def classifier() -> Classifier:
    """With features as far apart as those of a trained one."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Classifier(1, 8, FEATURES, 10).requires_grad_(False)
    net.body[8].weight *= 100
    return net


@pytest.fixture
def extractor(tmp_path: Path) -> Extractor:
    save_classifier(tmp_path / WEIGHTS, classifier())
    digest = content_hash(tmp_path / WEIGHTS)
    (tmp_path / FACTS).write_text(
        json.dumps({"kind": "classifier", "features": FEATURES, "weights": WEIGHTS, "weights_sha256": digest})
    )
    return Extractor.load(tmp_path)


def frechet(one: np.ndarray, other: np.ndarray) -> float:
    """‖μ1 − μ2‖² + tr(Σ1 + Σ2 − 2·(Σ1Σ2)^½) of features [N, F]."""
    first, second = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    gap = one.mean(0) - other.mean(0)
    return float(gap @ gap + np.trace(first + second - 2 * sqrtm(first @ second).real))


def features_of(images: np.ndarray) -> np.ndarray:
    return classifier().features(torch.from_numpy(images)).double().numpy()


def test_fid_is_the_frechet_distance_of_the_features(extractor: Extractor) -> None:
    images, reference = pictures(100, 0, 160), pictures(150, 1)
    found = score(images, reference, extractor, CPU, kid_subset=50)
    assert found.fid == pytest.approx(frechet(features_of(images), features_of(reference)), rel=1e-4)
    assert found.fid > 0.01


def test_kid_is_the_unbiased_distance_of_cubic_kernels(extractor: Extractor) -> None:
    images, reference = pictures(60, 0, 160), pictures(60, 1)
    found = score(images, reference, extractor, CPU, kid_subset=60)
    x, y = features_of(images), features_of(reference)
    xx, yy, xy = ((a @ b.T / FEATURES + 1) ** 3 for a, b in ((x, x), (y, y), (x, y)))
    pairs = 60 * 59
    expected = (xx.sum() - np.trace(xx)) / pairs + (yy.sum() - np.trace(yy)) / pairs - 2 * xy.mean()
    assert found.kid == pytest.approx(expected, rel=1e-3)
    # With subsets as large as the sets all of them are the same.
    assert found.kid_std == pytest.approx(0, abs=1e-6)


def test_a_set_is_at_no_distance_from_itself_in_any_order(extractor: Extractor) -> None:
    images = pictures(80, 0)
    found = score(images, images[::-1], extractor, CPU, kid_subset=40)
    assert found.fid == pytest.approx(0, abs=1e-6)


def test_the_reference_is_kept_and_used_again(extractor: Extractor, tmp_path: Path) -> None:
    images, reference = pictures(60, 0, 160), pictures(60, 1)
    cache = (tmp_path / "cache", "reference")
    first = score(images, reference, extractor, CPU, 30, cache=cache)
    assert list((tmp_path / "cache").iterdir())
    # Under the same name the features of the first call are taken, whatever stands there now.
    again = score(images, pictures(60, 2, 20), extractor, CPU, 30, cache=cache)
    assert again == first
    assert score(images, reference, extractor, CPU, 30) == first


@pytest.mark.parametrize(("samples", "reference"), [(5, 50), (50, 5)])
def test_too_few_images_for_the_features(extractor: Extractor, samples: int, reference: int) -> None:
    with pytest.raises(UserError, match=r"FID: 5 .* for 6 features make the covariance singular; use more, or set"):
        score(pictures(samples, 0), pictures(reference, 1), extractor, CPU, kid_subset=2)
    allowed = score(pictures(samples, 0), pictures(reference, 1), extractor, CPU, kid_subset=2, allow_singular=True)
    expected = frechet(features_of(pictures(samples, 0)), features_of(pictures(reference, 1)))
    assert allowed.fid == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("samples", "reference", "what"), [(20, 50, "samples"), (50, 20, "reference images")])
def test_a_subset_larger_than_the_set(extractor: Extractor, samples: int, reference: int, what: str) -> None:
    with pytest.raises(UserError, match=rf"^KID: 20 {what}, fewer than evaluation\.kid_subset 30$"):
        score(pictures(samples, 0), pictures(reference, 1), extractor, CPU, kid_subset=30)


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:-1] + b"\0", lambda _: b""])
def test_altered_weights(extractor: Extractor, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    (tmp_path / WEIGHTS).write_bytes(damage((tmp_path / WEIGHTS).read_bytes()))
    with pytest.raises(UserError, match=rf"{WEIGHTS}: altered or cut short"):
        Extractor.load(tmp_path)


@pytest.mark.parametrize("name", [FACTS, WEIGHTS])
def test_missing(extractor: Extractor, tmp_path: Path, name: str) -> None:
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=f"{name}: missing"):
        Extractor.load(tmp_path)


def test_every_figure_names_its_extractor(extractor: Extractor) -> None:
    assert extractor.weights_sha256 is not None
    assert extractor.label == f"classifier-{extractor.weights_sha256[:12]}"
    downloaded = Extractor(kind="inception", features=2048, weights=None, weights_sha256=None)
    assert downloaded.label == "inception-torch-fideli"


def test_spread_over_seeds() -> None:
    found = spread([Scores(1.0, 0.1, 9.0), Scores(3.0, 0.1, 9.0), Scores(2.0, 0.4, 9.0)])
    assert found == pytest.approx({"fid_mean": 2.0, "kid_mean": 0.2, "fid_sd": 1.0, "kid_sd": 0.03**0.5})
    assert spread([Scores(1.0, 0.1, 9.0)])["fid_sd"] == 0


def inception_of_random_weights(monkeypatch: pytest.MonkeyPatch) -> inception.FeatureExtractorInceptionV3:
    """torch-fidelity's network without the weights that it would download."""
    monkeypatch.setattr(inception, "load_state_dict_from_url", lambda *_, **__: {})
    monkeypatch.setattr(inception.FeatureExtractorInceptionV3, "load_state_dict", lambda *_, **__: None)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = inception.FeatureExtractorInceptionV3("random", ["2048"])
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
    monkeypatch.undo()
    return net


@pytest.mark.slow
def test_inception_from_a_file_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = inception_of_random_weights(monkeypatch)
    torch.save(net.state_dict(), tmp_path / "inception.pth")
    path = tmp_path / "inception.pth"
    facts = {"kind": "inception", "features": 2048, "weights": str(path), "weights_sha256": content_hash(path)}
    (tmp_path / FACTS).write_text(json.dumps(facts))
    extractor = Extractor.load(tmp_path)
    images, reference = pictures(3, 0, 100), pictures(4, 1)
    with pytest.raises(UserError, match="FID: 3 samples for 2048 features"):
        score(images, reference, extractor, CPU, kid_subset=2)

    found = score(images, reference, extractor, CPU, kid_subset=3, allow_singular=True)

    # With so few images tr(Σ1Σ2)^½ is the nuclear norm of their centred features' products.
    x, y = (net(torch.from_numpy(these).expand(-1, 3, -1, -1))[0].double().numpy() for these in (images, reference))
    first, second = ((z - z.mean(0)) / (len(z) - 1) ** 0.5 for z in (x, y))
    gap = x.mean(0) - y.mean(0)
    expected = gap @ gap + (first**2).sum() + (second**2).sum() - 2 * np.linalg.norm(first @ second.T, ord="nuc")
    assert found.fid == pytest.approx(expected, rel=1e-3)
    (tmp_path / "inception.pth").write_bytes((tmp_path / "inception.pth").read_bytes()[:-1])
    with pytest.raises(UserError, match=r"inception\.pth: altered or cut short"):
        Extractor.load(tmp_path)
