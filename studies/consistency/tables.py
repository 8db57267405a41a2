"""The tables of the consistency study, and the conditions beside them."""

from collections.abc import Sequence
from statistics import fmean

from studies.consistency.findings import (
    MEASURES,
    STATES,
    ReplicaFindings,
    Row,
    agreement,
    model_name,
    relative_residual,
)
from unequal.report.formatting import mean_and_sd, plus_minus, with_prefix
from unequal.report.page import Table

#: What the best possible denoiser of the training images is called.
BEST = "the best denoiser"
RELATIONS = {
    "seeds": "models of other seeds",
    "widths": "models of other widths",
    "optimum": f"a model and {BEST}",
    "untrained": "untrained networks",
    "itself": "a model and itself",
}
LIKENESS_NOTE = (
    "Means over pairs: of pictures from the same noise, then of pictures from different noise (each beside the other "
    "model's from the noise before). Agreement: 1 − MSE(same noise)/MSE(other noise) ± standard deviation over pairs. "
    "Found again: how often the nearest of the other model's pictures is that from the same noise. The best denoiser "
    "is the best possible one of the training images, and samples nothing but these; untrained networks show how much "
    "of a likeness takes no learning."
)
DISTANCE_NOTE = (
    "Least mean squared error to any training image, mean over pictures. Pictures much nearer than held-out images are "
    "copies: where images are few and training is long, models may agree because they have all learned these by heart."
)
CURVATURE_NOTE = (
    "The recipe's loss on fixed training draws, the same for all models; largest eigenvalue of its Hessian by power "
    "iteration. Known within: the larger of the two residuals, as a share of its eigenvalue."
)
LINE_NOTE = (
    "Barrier: by what share the loss rises above the straight course between the ends' losses, at most, ± paired "
    "standard error over draws; and where on the way from the first seed's model to the second's."
)


def tables(found: ReplicaFindings) -> list[Table]:
    """All tables of the page."""
    return [likeness(found), distances(found), curvature(found), lines(found)]


def likeness(found: ReplicaFindings) -> Table:
    """How alike final pictures are, by what the two models differ in."""
    columns = ("pair", "pairs", "agreement", *MEASURES.values(), "found again")
    pairs = {text: found.pairs(relation) for relation, text in RELATIONS.items()}
    *rows, scale = [(text, *likeness_cells(some)) for text, some in pairs.items() if some]
    return Table("Pictures of the same noise", columns, rows, LIKENESS_NOTE, [scale])


def likeness_cells(rows: Sequence[Row]) -> list[str]:
    """The figures of all pairs of a kind."""

    def mean(column: str) -> float:
        return fmean(row[column] for row in rows)

    measured = [f"{mean(f'{measure}_same'):.3g}, {mean(f'{measure}_other_noise'):.3g}" for measure in MEASURES]
    return [str(len(rows)), mean_and_sd(list(map(agreement, rows))), *measured, f"{100 * mean('found_again'):.1f} %"]


def distances(found: ReplicaFindings) -> Table:
    """How far pictures lie from the training images."""
    scales = {"held_out": "held-out images", "two_training_images": "one training image to another, at random"}
    measured = {name: error for name, error in found.nearest.items() if name not in scales}
    rows = [(BEST if name == "optimum" else model_name(name), f"{error:.3g}") for name, error in measured.items()]
    references = [(text, f"{found.nearest[name]:.3g}") for name, text in scales.items()]
    return Table("Distance to the nearest training image", ("pictures of", "MSE"), rows, DISTANCE_NOTE, references)


def curvature(found: ReplicaFindings) -> Table:
    """Loss and sharpest curvature before and after training."""
    columns = ("model", "loss before", "loss after", "largest eigenvalue before", "after", "known within")
    rows = [
        (
            model_name(name),
            *(f"{one[state]['loss']:.3g}" for state in STATES),
            *(f"{one[state]['quotients'][-1]:.3g}" for state in STATES),
            within(max(relative_residual(one[state]) for state in STATES)),
        )
        for name, one in found.points.items()
    ]
    return Table("Curvature of the training loss", columns, rows, CURVATURE_NOTE)


def within(share: float) -> str:
    """A small share in percent; what is smaller than anyone needs to know says so."""
    return "0.01 %" if share < 1e-4 else f"{100 * share:.2g} %"


def lines(found: ReplicaFindings) -> Table:
    """Barriers between models of one width."""
    columns = ("line", "loss at its ends", "highest loss", "barrier", "at")
    rows = []
    for width, line in found.lines:
        losses, barrier = line["losses"], line["barrier"]
        height = plus_minus(100 * barrier["height"], 100 * barrier["stderr"])
        name = f"{width}, seeds {line['first']} and {line['second']}"
        ends = f"{losses[0]:.3g}, {losses[-1]:.3g}"
        rows.append((name, ends, f"{max(losses):.3g}", f"{height} %", f"{barrier['share']:.2f}"))
    return Table("Loss on the line between two models", columns, rows, LINE_NOTE)


def conditions(found: ReplicaFindings) -> dict[str, str]:
    """What the figures mean nothing without, as name → text."""
    facts = found.conditions
    comparison, sampling = facts["comparison"], facts["sampling"]
    steps = sampling["steps"] if isinstance(sampling["steps"], int) else len(sampling["steps"])
    draws = next(iter(found.landscape.values()))["draws"]
    return {
        "data": f"{facts['data']}, {facts['training_images']} training images, the same for all models",
        "models": f"{len(found.points)}, each trained on {with_prefix(facts['images_seen'])} images, "
        f"averaged weights, prediction {facts['prediction']}",
        "training seeds": "other weights, other batches, other noise; models of one seed and two widths share the last "
        "two",
        "pictures": f"{comparison['noises']} of each model, from noise of seed {facts['noise_seed']}",
        "sampling": f"DDIM, {steps} steps, {sampling['spacing']} spacing, η = 0, predicted images "
        f"{'clipped' if sampling['clip'] else 'not clipped'}",
        "predictions of x0": f"{comparison['images']} held-out images, noised alike for all models, clipped as in "
        "sampling",
        "loss landscape": f"{draws} training draws, timesteps equally spaced",
    }
