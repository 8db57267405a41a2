"""Statements, tables and pictures of the consistency study on made-up findings whose answer is known."""

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
from studies.consistency.findings import ReplicaFindings, agreement, model_name, seed_of
from studies.consistency.statements import over_seeds, same_over_other, sections
from studies.consistency.tables import conditions, tables
from unequal.report.drawing import save

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


def figures_of(found: ReplicaFindings) -> dict[str, dict[str, float]]:
    return {one.key: one.figures for section in sections(found) for one in section.statements}


def test_figures_that_are_said_are_those_that_were_put_in() -> None:
    said = figures_of(findings())
    seeds = said["alike_across_seeds"]
    assert (seeds["pairs"], seeds["found_again"]) == pytest.approx((6, 0.9))
    assert (seeds["mse_same"], seeds["mse_other_noise"]) == pytest.approx((0.03, 0.5), abs=1e-3)
    assert seeds["mse_change_percent"] == pytest.approx(-94, abs=0.2)
    assert seeds["mse_low_percent"] < seeds["mse_change_percent"] < seeds["mse_high_percent"]
    assert said["same_picture"]["mse_change_percent"] == pytest.approx(-48, abs=1)
    assert said["learned"] == pytest.approx({"trained": 0.928, "untrained": 0.4}, abs=0.003)
    assert said["beyond_memory"] == pytest.approx({"to_other_model": 0.036, "to_training": 0.15}, abs=1e-3)
    assert said["beyond_optimum"]["to_optimum"] == pytest.approx(0.2, abs=1e-3)
    assert said["curvature"] == pytest.approx({"trained": 51, "untrained": 102})
    assert said["barrier"] == {"lowest_percent": 0.0, "highest_percent": 0.0}
    assert said["predictions_alike"]["mse_ratio_40"] == pytest.approx(0.05, rel=0.1)


def test_what_is_left_out_is_a_training_seed_with_all_its_pairs() -> None:
    """Of three seeds each pair is what one of them leaves; the jackknife of a mean of three is its standard error."""
    values = {(0, 1): 1.0, (0, 2): 2.0, (1, 2): 6.0}
    rows = [{"first": name_of("w", a), "second": name_of("w", b), "value": value} for (a, b), value in values.items()]
    found = over_seeds(rows, lambda some: float(np.mean([row["value"] for row in some])))
    # Pseudo-values are 3·3 − 2·x: their mean is 3, their standard deviation twice that of the values.
    error = 2 * np.std(list(values.values()), ddof=1) / np.sqrt(3)
    assert found.change == 3.0
    assert found.ends == pytest.approx((3 - 4.3027 * error, 3 + 4.3027 * error), rel=1e-4)


def test_too_few_seeds_have_no_interval() -> None:
    rows = [row for row in picture_rows(APART) if row["relation"] == "seeds"][:1]
    assert over_seeds(rows, same_over_other).ends is None
    assert "(" not in over_seeds(rows, same_over_other).text


def test_what_was_left_out_is_not_told_of() -> None:
    found = findings(pictures=picture_rows({name: APART[name] for name in ("itself", "seeds", "untrained")}))
    assert not {"alike_across_widths", "beyond_optimum"} & set(figures_of(found))


def test_seeds_are_told_by_names() -> None:
    assert [seed_of(name) for name in ("16-32/seed_2", "untrained/24-48/seed_11", "optimum")] == [2, 11, None]


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
    for one in (one for section in sections(findings()) for one in section.statements):
        assert not re.search(r"[{}]|nan", one.text)
