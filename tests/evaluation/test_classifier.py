"""The classifier learns what can be learned, and is the same after saving."""

from functools import partial

import numpy as np
import pytest
import torch
from one_line import refusal

from unequal.data.prepared import PreparedData
from unequal.evaluation.classifier import (
    ROTATIONS,
    Classifier,
    accuracy,
    check_accuracy,
    load_classifier,
    rotated,
    save_classifier,
    train_classifier,
)


def fresh(channels: int = 1, size: int = 8, features: int = 6, classes: int = 2) -> Classifier:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Classifier(channels, size, features, classes)


def trained(prepared: PreparedData, seed: int = 0, budget: int = 320) -> Classifier:
    net = fresh()
    assert prepared.labels is not None
    train_classifier(net, prepared.train, prepared.labels[:36], budget, batch_size=16, lr=3e-3, seed=seed)
    return net


def test_it_learns_two_classes_and_accuracy_is_the_share_of_right_answers(prepared):
    net, labels = trained(prepared), np.asarray(prepared.labels)
    assert accuracy(net, prepared.holdout, labels[36:]) == 1
    assert accuracy(net, prepared.train, 1 - labels[:36]) == 0
    assert accuracy(net, prepared.train, np.where(np.arange(36) < 9, labels[:36], 1 - labels[:36])) == 0.25


def test_without_labels_it_learns_quarter_turns():
    generator = np.random.default_rng(0)
    images = np.zeros((48, 1, 8, 8), np.uint8)
    images[:, :, :4] = generator.integers(128, 256, size=(48, 1, 4, 8))  # bright above
    net = fresh(classes=ROTATIONS)
    train_classifier(net, images[:36], None, 1280, batch_size=16, lr=3e-3, seed=0)
    assert accuracy(net, images[36:], None) == 1
    # By hand: one turn counter-clockwise brings the bright half to the left.
    (turned,) = rotated(torch.from_numpy(images[:1]), torch.tensor([1]))
    assert turned[0, :, :4].min() >= 128 and turned[0, :, 4:].max() == 0


def test_training_follows_its_seed(prepared):
    one, again, other = (trained(prepared, seed, budget=32).body[0].weight for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("channels", "size", "classes"), [(1, 8, 10), (3, 32, 4), (1, 16, 2)])
def test_the_file_holds_all_that_is_needed(tmp_path, channels, size, classes):
    net = fresh(channels, size, 6, classes)
    save_classifier(tmp_path / "a.safetensors", net)
    loaded = load_classifier(tmp_path / "a.safetensors", size)
    images = torch.randint(0, 256, (5, channels, size, size), dtype=torch.uint8)
    assert torch.equal(loaded(images), net(images))
    assert loaded.features(images).shape == (5, 6)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_normalised_features_have_a_mean_square_of_one_and_classify_equally(tmp_path, prepared):
    net, images = trained(prepared), torch.from_numpy(np.array(prepared.train))
    before = net(images)
    for _ in range(2):
        net.normalise(images)
        assert float(net.features(images).detach().square().mean()) == pytest.approx(1, rel=1e-4)
    assert torch.equal(net(images), before)
    save_classifier(tmp_path / "a.safetensors", net)
    assert torch.equal(load_classifier(tmp_path / "a.safetensors", 8).features(images), net.features(images))


@pytest.mark.parametrize("weight", [0.0, float("nan")])
def test_features_that_have_no_scale(weight):
    net = Classifier(1, 8, 4, 2)
    net.body[8].weight.data.fill_(weight)
    net.body[8].bias.data.fill_(0.0)
    said = f"root mean square of {weight}; lower extractor"
    assert said in refusal(net.normalise, torch.zeros(2, 1, 8, 8, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("right", "labels", "refused"),
    [
        (180, [0] * 180, True),  # one class
        (18, list(range(10)) * 18, True),  # chance
        (24, list(range(10)) * 18, True),  # above it, as one guess in ten is
        (30, list(range(10)) * 18, False),
        (160, [0] * 160 + [1] * 20, True),  # always the frequent class
        (175, [0] * 160 + [1] * 20, False),
        (1, [0, 1], True),
        (2, [0, 1], False),  # as good as two images can say
        (70, None, True),
        (100, None, False),
    ],
)
def test_features_that_tell_nothing_are_refused(right, labels, refused):
    images = 60 if labels is None else len(labels)
    share = right / (4 * images if labels is None else images)
    call = partial(check_accuracy, share, images, labels and np.array(labels))
    if refused:
        said = refusal(call)
        assert f"of {right} of " in said and ": its features distinguish nothing" in said
    else:
        call()
