"""Verdicts, tables and pictures of the consistency study on made-up findings whose answer is known."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from studies.consistency import figures
from studies.consistency.claims import verdicts
from studies.consistency.findings import ReplicaFindings, agreement, model_name
from studies.consistency.tables import conditions, tables
from unequal.reporting.figures import save
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED

WIDTHS, SEEDS, TIMESTEPS = ("16-32", "24-48"), (0, 1, 2), (0, 10, 40)
MODELS = [(width, seed) for width in WIDTHS for seed in SEEDS]


def name_of(width: str, seed: int) -> str:
    return f"{width}/seed_{seed}"


def pairs() -> list[tuple[str, str, str]]:
    """(relation, first, second) of all trained models, the optimum, and the untrained networks."""
    found = []
    for a, b in combinations_with_replacement(MODELS, 2):
        relation = "itself" if a == b else "seeds" if a[0] == b[0] else "widths"
        found.append((relation, name_of(*a), name_of(*b)))
        if a != b:
            found.append(("untrained", f"untrained/{name_of(*a)}", f"untrained/{name_of(*b)}"))
    return found + [("optimum", name_of(*model), "optimum") for model in MODELS]


def likeness(mse: float, condition: str) -> dict[str, float]:
    return {f"mse_{condition}": mse, f"cosine_{condition}": 1 - mse, f"ssim_{condition}": 1 - 2 * mse}


#: MSE of pictures from the same noise; from other noise it is 0.5.
APART = {"itself": 0.0, "seeds": 0.03, "widths": 0.04, "optimum": 0.2, "untrained": 0.3}


def picture_rows(apart: dict[str, float], jitter: float = 0.001) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    return [
        {"relation": relation, "first": first, "second": second, "found_again": 0.9}
        | likeness(apart[relation] + random.uniform(-jitter, jitter) * (relation != "itself"), "same")
        | likeness(0.5 + random.uniform(-jitter, jitter), "other_noise")
        for relation, first, second in pairs()
        if relation in apart
    ]


def prediction_rows(ratios: tuple[float, ...] = (0.1, 0.2, 0.05)) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    return [
        {"relation": relation, "first": first, "second": second, "timestep": t}
        | likeness(0.1 * ratio * random.uniform(0.95, 1.05), "same")
        | likeness(0.1 * random.uniform(0.95, 1.05), "other_noise")
        | likeness(0.4, "other_image")
        for t, ratio in zip(TIMESTEPS, ratios, strict=True)
        for relation, first, second in pairs()
    ]


def point(eigenvalue: float, loss: float) -> dict[str, Any]:
    return {"loss": loss, "quotients": [0.1, eigenvalue], "residuals": [5.0, eigenvalue / 100], "shift": 0.0}


def landscape(before: float, after: float, height: float) -> dict[str, dict[str, Any]]:
    models = [
        {"seed": seed, "trained": point(after + seed, 0.1), "untrained": point(before + 2 * seed, 1.0)}
        for seed in SEEDS
    ]
    barrier = {"share": 0.5, "height": height, "stderr": 0.01}
    lines = [
        {"first": a, "second": b, "losses": [0.1, 0.1 * (1 + height), 0.1], "barrier": barrier}
        for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    return {width: {"width": width, "draws": 8, "models": models, "lines": lines} for width in WIDTHS}


def findings(**changes: Any) -> ReplicaFindings:
    """As the papers would have it, any part of it changed."""
    images = np.random.default_rng(2).integers(0, 256, (20, 1, 8, 8), dtype=np.uint8)
    nearest = {name_of(*model): 0.15 for model in MODELS}
    whole = ReplicaFindings(
        pictures=picture_rows(APART),
        predictions=prediction_rows(),
        nearest=nearest | {"optimum": 0.0, "held_out": 0.07, "two_training_images": 0.6},
        conditions={
            "training_images": 100,
            "images_seen": 80000,
            "data": "made-up",
            "prediction": "epsilon",
            "timesteps": 50,
            "noise_seed": 0,
            "sampling": {"steps": 5, "spacing": "uniform", "eta": 0.0, "clip": True, "batch_size": 4},
            "comparison": {"noises": 20, "images": 8, "timesteps": list(TIMESTEPS), "optimum": True},
        },
        landscape=landscape(before=100, after=50, height=0.0),
        images={name_of(*model): images for model in MODELS} | {"optimum": images},
        known=images,
    )
    return replace(whole, **changes)


def words(found: ReplicaFindings) -> dict[str, str]:
    return {one.key: one.verdict for one in verdicts(found)}


def test_all_claims_hold_where_the_figures_say_so() -> None:
    found = verdicts(findings())
    assert {one.verdict for one in found} == {HELD}
    assert [one.key for one in found if one.paper is None] == ["learned", "beyond_memory", "beyond_optimum"]
    assert len(found) == 9


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"pictures": picture_rows(APART | {"seeds": 0.6})},
            {"alike_across_seeds": NOT_HELD, "alike_across_widths": HELD},
        ),
        ({"pictures": picture_rows(APART | {"widths": 0.6})}, {"alike_across_widths": NOT_HELD}),
        ({"pictures": picture_rows(APART | {"seeds": 0.5, "widths": 0.5})}, {"alike_across_seeds": UNDECIDED}),
        ({"pictures": picture_rows(APART | {"seeds": 0.12, "widths": 0.12})}, {"same_picture": NOT_HELD}),
        ({"pictures": picture_rows(APART | {"untrained": 0.001})}, {"learned": NOT_HELD}),
        ({"pictures": picture_rows(APART | {"optimum": 0.001})}, {"beyond_optimum": NOT_HELD}),
        ({"pictures": picture_rows(APART | {"seeds": 0.16, "widths": 0.17})}, {"beyond_memory": NOT_HELD}),
        ({"predictions": prediction_rows((2.0, 2.0, 0.1))}, {"predictions_alike": NOT_HELD}),
        ({"predictions": prediction_rows((1.0, 0.1, 0.1))}, {"predictions_alike": UNDECIDED}),
        ({"landscape": landscape(before=50, after=100, height=0.0)}, {"less_curved": NOT_HELD}),
        ({"landscape": landscape(before=50, after=50.5, height=0.0)}, {"less_curved": UNDECIDED, "no_barrier": HELD}),
        ({"landscape": landscape(before=100, after=50, height=3.0)}, {"no_barrier": NOT_HELD, "less_curved": HELD}),
        ({"landscape": landscape(before=100, after=50, height=0.1)}, {"no_barrier": UNDECIDED}),
    ],
    ids=lambda value: "-".join(value),
)
def test_a_claim_falls_with_its_figures(changes: dict[str, Any], expected: dict[str, str]) -> None:
    found = words(findings(**changes))
    assert {key: found[key] for key in expected} == expected


def test_figures_behind_a_verdict_are_those_that_were_put_in() -> None:
    by_key = {one.key: one for one in verdicts(findings())}
    seeds = by_key["alike_across_seeds"].figures
    assert seeds["pairs"] == 6
    assert seeds["found_again"] == pytest.approx(0.9)
    assert (seeds["mse_same"], seeds["mse_other_noise"]) == pytest.approx((0.03, 0.5), abs=1e-3)
    assert seeds["agreement"] == pytest.approx(1 - 0.03 / 0.5, abs=0.003)
    assert by_key["less_curved"].figures["difference"] == pytest.approx(51)
    assert by_key["less_curved"].figures["residual"] == pytest.approx(0.01)
    assert "0.051" in by_key["predictions_alike"].summary or "0.05 (t = 40)" in by_key["predictions_alike"].summary


def test_spreads_are_over_pairs() -> None:
    """One pair has no spread, and decides nothing."""
    rows = [row for row in picture_rows(APART) if row["relation"] != "seeds"]
    one = next(row for row in picture_rows(APART) if row["relation"] == "seeds")
    assert words(findings(pictures=[*rows, one]))["alike_across_seeds"] == UNDECIDED


def test_noisy_pairs_decide_nothing() -> None:
    assert words(findings(pictures=picture_rows(APART, jitter=1.0)))["alike_across_seeds"] == UNDECIDED


def test_claims_about_what_was_left_out_are_not_made() -> None:
    found = findings(pictures=picture_rows({name: APART[name] for name in ("itself", "seeds", "untrained")}))
    assert not {"alike_across_widths", "beyond_optimum"} & set(words(found))


def test_agreement_is_1_for_equal_pictures_and_0_where_noise_says_nothing() -> None:
    assert agreement({"mse_same": 0.0, "mse_other_noise": 0.4}) == 1
    assert agreement({"mse_same": 0.4, "mse_other_noise": 0.4}) == 0


def test_names_of_models() -> None:
    assert model_name("16-32/seed_2") == "16-32, seed 2"
    assert model_name("optimum") == "optimum"


def test_tables_hold_every_pair_model_and_line() -> None:
    likeness, distances, curvature, lines = tables(findings())
    assert [row[1] for row in likeness.rows] == ["6", "9", "6", "15"]
    assert [row[0] for row in likeness.references] == ["a model and itself"]
    assert likeness.rows[0][-1] == "90.0 %"
    assert ("the best denoiser", "0") in distances.rows
    assert ("held-out images", "0.07") in distances.references
    assert [row[0] for row in curvature.rows] == [model_name(name_of(*model)) for model in MODELS]
    assert curvature.rows[0][1:] == ("1", "0.1", "100", "50", "1 %")
    assert [row[0] for row in lines.rows][:2] == ["16-32, seeds 0 and 1", "16-32, seeds 0 and 2"]
    for table in (likeness, distances, curvature, lines):
        assert {len(row) for row in (*table.rows, *table.references)} == {len(table.columns)}


def test_conditions_say_what_models_share() -> None:
    text = " ".join(conditions(findings()).values())
    for part in ("100 training images", "6, each trained on 80.0 k images", "DDIM, 5 steps", "20 of each model"):
        assert part in text


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def drawn(draw: Callable[..., None], found: ReplicaFindings) -> Figure:
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure, found)
    return figure


def test_the_grid_has_a_row_a_model() -> None:
    axes = drawn(figures.grid, findings()).axes[0]
    texts = [text.get_text() for text in axes.get_yticklabels()]
    assert texts == [*(model_name(name_of(*model)) for model in MODELS), "best denoiser", "nearest training image"]


def test_curves_are_means_over_pairs_at_every_timestep() -> None:
    found = findings()
    panel = drawn(figures.predictions, found).axes[0]
    line = panel.get_lines()[0]
    assert list(np.asarray(line.get_xdata())) == [t + 1 for t in TIMESTEPS]
    rows = [row for row in found.predictions if row["relation"] == "seeds"]
    expected = [np.mean([row["mse_same"] for row in rows if row["timestep"] == t]) for t in TIMESTEPS]
    assert np.asarray(line.get_ydata()) == pytest.approx(expected)
    assert len(panel.get_lines()) == len(figures.CURVES)


def test_lines_and_power_iterations_are_all_drawn_and_named_once() -> None:
    found = findings()
    lines = drawn(figures.lines, found).axes[0]
    assert len(lines.get_lines()) == 6
    upper, lower = drawn(figures.convergence, found).axes
    assert len(upper.get_lines()) == len(lower.get_lines()) == 12
    texts = legend_of(upper)
    assert texts == [f"{width}, {state}" for width in WIDTHS for state in ("trained", "untrained")]
    assert legend_of(lines) == [*WIDTHS, "before training"]


@pytest.mark.parametrize("figure", [figures.grid, figures.predictions, figures.lines, figures.convergence])
def test_saving_twice_gives_the_same_bytes(figure: Callable[..., None], tmp_path: Path) -> None:
    found = findings()
    first, second = (save(tmp_path / f"{i}.png", (8, 4), partial(figure, found=found)) for i in (1, 2))
    assert first.read_bytes() == second.read_bytes()


def test_texts_are_filled_in() -> None:
    for one in verdicts(findings()):
        assert not re.search(r"[{}]|nan", f"{one.claim}{one.summary}{one.rule}")
