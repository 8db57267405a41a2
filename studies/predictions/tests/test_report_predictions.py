"""The predictions study's report on trials whose answers were put in: crossovers, winners, scores, verdicts."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from stage_project import write_params

from studies.predictions.findings import TimestepErrors, Wins, mean_ratio
from studies.predictions.stages.report_predictions import main
from unequal.diffusion.predictions import HEADS, x0_error_factor
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import content_hash, write_json, write_npz

pytestmark = pytest.mark.slow

T, DRAWS, BINS = 60, 5, 6
SEEDS = (0, 1, 2)
SCHEDULE = NoiseSchedule.linear(T)
SINGLE = ("epsilon", "v_prediction", "sample")
MIXED = {"best_common": "profile", "best_native": "profile", "balanced": "blend"}
SELECTIONS = ("profile", "blend", "epsilon")
RECIPE: dict[str, Any] = {
    "images": 1000,
    "sampler": {"kind": "uniform"},
    "loss_weight": {"kind": "none"},
    "optimizer": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "constant"},
}
CONDITIONS: dict[str, Any] = {
    "samples_per_seed": 64, "sampling_seeds": [0], "extractor": "classifier", "features": 4,
    "reference": "training images", "singular_covariance": False,
    "sampling": {"steps": 5, "spacing": "uniform", "eta": 0.0, "clip": True}, "device": "cpu",
    "fp32": "ieee",
}  # fmt: skip


def recipes() -> dict[str, Any]:
    mixing: dict[str, dict[str, Any]] = {name: {"train": name, "select": select} for name, select in MIXED.items()}
    mixing["balanced"]["half_life_images"] = 100
    return {name: RECIPE | {"prediction": name} for name in SINGLE} | {
        name: RECIPE | {"prediction": "mixed", "mixing": mixing[name]} for name in MIXED
    }


def errors(prediction: str) -> np.ndarray:
    """Mean x0-errors [T] of a prediction: v's are 0.01; ε's rise through them at t = 20, x0's fall through at 40."""
    t = np.arange(T) + 0.5
    return 0.01 * np.exp({"epsilon": (t - 20) / 20, "v_prediction": 0 * t, "sample": (40 - t) / 20}[prediction])


def products(means: np.ndarray, seed: int) -> np.ndarray:
    """Products [T, n, H, H] of uncorrelated errors with these mean squares, [T, H], up to a common factor a draw."""
    scale = np.random.default_rng(seed).uniform(0.9, 1.1, (T, DRAWS, 1, 1))
    return (scale * means[:, None, :, None] * np.eye(means.shape[1])).astype(np.float32)


def head_means(name: str) -> np.ndarray:
    """Errors [T, 3] of the heads: balanced ones are those of the single predictions, of the others ε is left behind."""
    means = np.stack([errors(head) for head in HEADS], axis=1)
    return means if name == "balanced" else means * [1, 1, 30]


def wins(seed: int) -> np.ndarray:
    """Counts [20, bins, 3]: x0 wins three of four images throughout, v the fourth."""
    return np.tile(np.array([30, 10, 0]) + seed, (20, BINS, 1)) * np.array([1, 1, 0])


def leave_trials() -> None:
    """What the trials leave."""
    write_params(
        schedule={"name": "linear", "timesteps": T},
        recipes=recipes(),
        grid={"recipes": list(SINGLE), "batches": ["8x1"], "seeds": list(SEEDS)},
        predictions={"mixed": list(MIXED)},
        profile={"images": DRAWS},
    )
    Path("artifacts/data").mkdir(parents=True)
    np.save("artifacts/data/images.npy", np.zeros((24, 1, 8, 8), np.uint8))
    facts = {"n": 24, "shape": [1, 8, 8], "range": [0, 255], "source": "made-up", "path": None, "labels": None}
    split = {"train": [0, 20], "holdout": [20, 24]}
    write_json(Path("artifacts/data/facts.json"), facts | {"sha256": "0" * 64, "split": split})
    for seed in SEEDS:
        for number, name in enumerate(SINGLE):
            write_npz(heads_of(name, seed), products=products(errors(name)[:, None], seed))
            point = {"fid_mean": 2.0 - 0.5 * number + 0.01 * seed, "kid_mean": 0.1}
            write_json(Path(f"results/trials/{name}_batch_8x1_seed_{seed}.json"), CONDITIONS | {"points": [{}, point]})
        for number, name in enumerate(MIXED):
            found = products(head_means(name), seed)
            write_npz(heads_of(name, seed), products=found, settled=found.mean(1).astype(np.float64))
            write_npz(
                Path(f"artifacts/statistics/{name}/batch_8x1/seed_{seed}.npz"),
                wins=wins(seed).astype(np.float64),
                bins=np.arange(T) // (T // BINS),
            )
            by_selection = {
                select: {"fid_mean": 3.0 - 1.2 * number + 0.1 * i + 0.02 * seed, "kid_mean": 0.2}
                for i, select in enumerate(SELECTIONS)
            }
            path = Path(f"results/selections/{name}_batch_8x1_seed_{seed}.json")
            write_json(path, CONDITIONS | {"selections": by_selection})


def heads_of(name: str, seed: int) -> Path:
    return Path(f"artifacts/heads/{name}/batch_8x1/seed_{seed}.npz")


def run() -> Result:
    return CliRunner().invoke(main, [])


@pytest.fixture(scope="module", autouse=True)
def reported(module_project: Path) -> None:
    leave_trials()
    result = run()
    assert result.exit_code == 0, result.output


def rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def claims() -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in json.loads(Path("results/verdicts.json").read_text())["claims"]}


def test_crossovers_are_found_where_they_were_put() -> None:
    found = {(row["source"], row["below"], row["above"]): row["timesteps"] for row in rows("results/crossovers.csv")}
    for source in ("trained alone", "heads of balanced"):
        assert found[source, "epsilon", "v_prediction"] == "20 20 20"
        assert found[source, "v_prediction", "sample"] == "40 40 40"
        assert found[source, "epsilon", "sample"] == "30 30 30"
    assert len(found) == 6
    assert "20, 20, 20" in Path("results/report.html").read_text()


def test_the_papers_claims_are_decided_by_what_was_put_in() -> None:
    found = claims()
    assert {key: found[key]["verdict"] for key in ("ends", "v_is_even", "best_common_is_worse")} == {
        "ends": "held",
        "v_is_even": "held",
        "best_common_is_worse": "held",
    }
    # FID of best_native is 1.8 against ε's 2: paper 1 does not hold there.
    assert found["best_native_is_worse"]["verdict"] == "not held"
    assert found["best_native_is_worse"]["figures"]["difference"] == pytest.approx(-0.2, abs=0.02)


def test_losses_are_compared_as_they_are() -> None:
    """Native losses: x0-errors over σ² for v and over σ²/α² for ε."""
    factors = [x0_error_factor(one, SCHEDULE.alpha, SCHEDULE.sigma).numpy() for one in SINGLE]
    native = np.stack([errors(one) / factor for one, factor in zip(SINGLE, factors, strict=True)])
    share = 100 * (native.max(0) / native.min(0) >= 10).mean()
    assert claims()["losses_differ_in_scale"]["figures"]["timesteps_percent"] == pytest.approx(share, abs=2)


def test_our_answer_is_held_against_the_others() -> None:
    found = claims()
    # 0.7 with the blend (0.6 by profile), against 3.0 and 1.8; the best single prediction has 1.0.
    for key in ("balanced_beats_smallest", "balanced_beats_smallest_with_blend", "balanced_beats_best_alone"):
        assert found[key]["verdict"] == "held", key
    assert found["balanced_beats_best_alone"]["figures"]["difference"] == pytest.approx(0.3, abs=0.02)


def test_the_head_that_never_wins_is_named_with_its_error() -> None:
    found = claims()["best_common_leaves_a_head_behind"]
    assert found["verdict"] == "held"
    assert found["figures"] == {"error_ratio": pytest.approx(30, rel=1e-3), "wins_percent": 0.0}
    assert found["summary"].startswith("ε learned from 0 % of the images")
    assert claims()["best_common_settles_early"]["figures"]["kept_percent"] == 100


def test_uncorrelated_heads_blended_err_less_than_the_best_of_them() -> None:
    """Weights go by inverse errors, whatever the draws: 1/Σ 1/e."""
    means = head_means("balanced")
    expected = mean_ratio(1 / (1 / means).sum(1), means.min(1))
    found = claims()["balanced_errs_least"]
    assert found["verdict"] == "held"
    assert found["figures"]["error_ratio"] == pytest.approx(expected, rel=0.01)
    assert found["figures"]["less_at_percent"] == 100


def test_winners_are_told_for_every_part_and_bin() -> None:
    table = rows("results/winners.csv")
    assert len(table) == len(MIXED) * 20 * BINS
    first = table[0]
    assert (first["training"], first["part"], first["first"], first["last"]) == ("best_common", "1", "0", "9")
    # Seeds 0, 1 and 2 together: 30 + 31 + 32, 10 + 11 + 12, none.
    assert [int(first[f"wins_{head}"]) for head in HEADS] == [93, 33, 0]
    assert int(first["images"]) == 126


def test_the_comparison_of_losses_as_they_are_favours_x0_above_an_snr_of_1() -> None:
    """By hand, at equal errors of x0."""
    tables = SCHEDULE.alpha, SCHEDULE.sigma
    native = np.stack([1 / x0_error_factor(one, *tables).numpy() for one in ("sample", "v_prediction", "epsilon")])
    best = native.argmin(0)
    turn = int(np.flatnonzero(best == 2)[0])
    assert set(best[:turn]) == {0}
    assert set(best[turn:]) == {2}
    assert f"(t &lt; {turn}), ε’s from there on, v’s never" in Path("results/report.html").read_text()


def test_scores_stand_with_their_spread_over_training_seeds() -> None:
    found = {(row["training"], row["selection"]): row for row in rows("results/scores.csv")}
    assert len(found) == len(SINGLE) + len(MIXED) * len(SELECTIONS)
    assert float(found["sample", ""]["fid_mean"]) == pytest.approx(1.01)
    assert float(found["balanced", "blend"]["fid_sd"]) == pytest.approx(0.02)


def test_the_page_holds_all_and_comes_out_alike() -> None:
    page = Path("results/report.html").read_text()
    assert page.count("data:image/png") == len(list(Path("results/pictures").glob("*.png"))) == 5
    for text in ("blend (its recipe’s)", "5 draws of held-out images", "0, 1, 2", "Of 13 claims"):
        assert text in page, text
    first = [content_hash(Path("results") / name) for name in ("pictures", "report.html")]
    run()
    assert [content_hash(Path("results") / name) for name in ("pictures", "report.html")] == first


@pytest.mark.parametrize(
    "path",
    [
        "artifacts/heads/balanced/batch_8x1/seed_1.npz",
        "artifacts/statistics/balanced/batch_8x1/seed_1.npz",
        "results/selections/balanced_batch_8x1_seed_1.json",
        "results/trials/sample_batch_8x1_seed_1.json",
    ],
)
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:40])])
def test_missing_and_cut_files_are_named_in_one_line(path: str, harm: Callable[[Path], Any], project: Path) -> None:
    leave_trials()
    harm(Path(path))
    result = run()
    assert result.exit_code == 1
    assert result.output.startswith(f"report_predictions: {path}: ")
    assert result.output.count("\n") == 1


def test_hindsight_is_what_no_choice_by_timestep_has() -> None:
    """Two heads that are right in turns: the smaller error is always 0.01, either head's mean 0.505."""
    turns = np.array([[0.01, 1.0, 2.0], [1.0, 0.01, 2.0]])
    means = np.einsum("ni,ij->nij", turns, np.eye(3)).mean(0)
    found = TimestepErrors(np.tile(means, (4, 1, 1)), np.full(4, 0.01), np.tile(means, (4, 1, 1)))
    assert found.hindsight == pytest.approx(1 - 0.01 / 0.505)
    assert found.correlation == 0


def test_a_lead_that_changes_hands_is_not_kept() -> None:
    counts = np.zeros((20, 2, 3))
    counts[0] = [[3, 1, 0], [0, 1, 3]]
    counts[-1] = [[3, 1, 0], [3, 1, 0]]
    assert Wins(counts, np.array([0, 0, 0, 1])).kept_lead == 0.75
