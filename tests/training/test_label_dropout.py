"""Labels are withheld from as many images as asked for, by seed and step alone."""

import torch
from specs import class_labels, dropped_labels

from unequal.data.prepared import PreparedData, tensor_of
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import BatchSource, withholding


def source(prepared: PreparedData, seed: int = 3, batch_size: int = 200) -> BatchSource:
    images, sampler = tensor_of(prepared.train), TimestepSampler(uniform(50))
    return BatchSource(images, batch_size, sampler, seed, True, torch.device("cpu"), labels=prepared.train_labels)


def test_a_share_of_the_labels_becomes_the_null_class_and_nothing_else_changes(prepared: PreparedData) -> None:
    plain = source(prepared)
    withheld, count = withholding(plain, dropped_labels(2, 0.1)), 0
    for step in range(20):
        before, after = plain.draw(step), withheld.draw(step)
        gone = after.labels == 2
        assert torch.equal(after.labels[~gone], before.labels[~gone])
        for name in ("x0", "epsilon", "timesteps", "weights"):
            assert torch.equal(getattr(after, name), getattr(before, name))
        count += int(gone.sum())
    # Of 4000 coins with p = 0.1, four standard deviations are 76.
    assert abs(count - 400) < 76


def test_processes_and_resumed_trainings_withhold_the_same(prepared: PreparedData) -> None:
    whole = withholding(source(prepared), dropped_labels(2, 0.5)).draw(7)
    again = withholding(source(prepared), dropped_labels(2, 0.5))
    parts = [again.draw(7, part).labels for part in (slice(0, 70), slice(70, 200))]
    assert torch.equal(torch.cat(parts), whole.labels)
    other = withholding(source(prepared, seed=4), dropped_labels(2, 0.5)).draw(7)
    assert not torch.equal(other.labels == 2, whole.labels == 2)


def test_without_dropout_the_batches_are_what_they_were(prepared: PreparedData) -> None:
    plain = source(prepared)
    assert withholding(plain, class_labels(2)) is plain
