"""Words of the front page where everything was trained several times."""

import math

import numpy as np
import pytest

from unequal.artifacts.figures import Replicas
from unequal.report.comparisons import SAME_WITHIN, are_judged, judged, judged_losses, mean_fids
from unequal.report.pipeline_page import headed
from unequal.statistics.verdicts import BETTER, NOT_TESTABLE, SAME, WORSE

BASE = np.array([1.0, 1.2, 0.9, 1.1, 1.05])
JITTER = np.array([1.001, 0.999, 1.0, 1.002, 0.998])


def replicas(**models: np.ndarray) -> Replicas:
    values = {name: found.tolist() for name, found in models.items()}
    return Replicas(range(len(BASE)), dict.fromkeys(SAME_WITHIN, values))


def test_two_trainings_tell_no_scatter() -> None:
    assert [are_judged(Replicas(range(count), {})) for count in (1, 2, 3, 5)] == [False, False, True, True]


def test_words_are_those_of_blocks_by_seed() -> None:
    """The seeds' own level, ± 15 % here, is common to all models of a seed and takes no part."""
    found = replicas(base=BASE, lower=BASE * 0.8 * JITTER, higher=BASE * 1.3 * JITTER, alike=BASE * JITTER)
    pairs = [("lower", "base"), ("higher", "base"), ("alike", "base")]
    told = judged(found, "fid", pairs)
    assert [one.verdict for one in told if one] == [BETTER, WORSE, SAME]
    assert told[0] is not None
    assert told[0].log_ratio == pytest.approx(math.log(0.8) + np.log(JITTER).mean())
    assert told[0].text().startswith("better, −20.0 % (−20.")
    assert [one.distinguishable for one in told if one] == [True, True, False]


def test_of_what_scatters_only_large_differences_are_told() -> None:
    noise = np.array([0.8, 1.2, 0.9, 1.25, 0.75])
    found = replicas(base=BASE, noisy=BASE * noise, far=BASE * 3 * noise)
    told = judged(found, "fid", [("noisy", "base"), ("far", "base")])
    assert [one.verdict for one in told if one] == [NOT_TESTABLE, WORSE]


def test_values_without_a_logarithm_and_models_without_values_are_left_out() -> None:
    found = replicas(base=BASE, broken=BASE * [0, 1, 1, 1, 1], other=BASE * 0.5 * JITTER)
    told = judged(found, "fid", [("broken", "base"), ("other", "base"), ("absent", "base")])
    assert [one is None for one in told] == [True, False, True]
    assert judged(found, "fid", [("broken", "base")]) == [None]
    assert judged_losses(found, [("absent", "base"), ("other", "base")])[0] == {}
    assert mean_fids(found)["broken"] == 0


def test_fids_beside_a_difference_are_those_that_it_is_of() -> None:
    found = replicas(base=BASE, lower=BASE * 0.8 * JITTER)
    (told,), means = judged(found, "fid", [("lower", "base")]), mean_fids(found)
    assert told is not None
    assert math.log(means["lower"] / means["base"]) == pytest.approx(told.log_ratio)


def test_the_page_says_what_its_words_rest_on() -> None:
    heading, lead = headed(ranked=True, trainings=3)
    assert heading == "What paid in these runs?"
    assert "trained 3 times" in lead
    assert "within 1% of a loss or 5% of FID" in lead
    assert "once" in headed(ranked=True, trainings=1)[1]
