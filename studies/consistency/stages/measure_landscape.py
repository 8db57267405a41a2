"""Measure how smooth the training loss is: its curvature at every replica of a width, its course between two."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import nn

from studies.consistency.comparison import TRAINED, UNTRAINED, untrained
from studies.consistency.landscape import FixedLoss, barrier, fixed_batches, largest_eigenvalue, losses_on_line
from studies.consistency.params import Landscape
from unequal.data.prepared import PreparedData, tensor_of
from unequal.files import rounded, write_csv, write_json
from unequal.models.folder import load_model
from unequal.models.spec import ModelSpec
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, torch_generator, torch_seed
from unequal.settings.network import UNet2D
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.training.objectives import objective_for


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    network: UNet2D
    recipe: Recipe = key("recipes.base")
    horizontal_flips: bool = key("training.horizontal_flips")
    seeds: tuple[int, ...] = key("consistency.seeds")
    landscape: Landscape = key("consistency.landscape")


@stage(Settings)
def main(run: Run, settings: Settings, width: str) -> None:
    """Measure the loss landscape of a width, written as in 16-32."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.input(f"artifacts/models/{width}")
    loaded = {seed: load_model(folder / f"seed_{seed}") for seed in settings.seeds}
    spec = next(iter(loaded.values()))[1].spec
    loss_of = fixed_loss(settings, data, spec, run.device)
    trained = {seed: loss_of(on(run.device, net)) for seed, (net, _) in loaded.items()}
    models = []
    for seed, loss in trained.items():
        before = loss_of(on(run.device, untrained(settings.network, width, seed, spec)))
        models.append({"seed": seed, TRAINED: curvature(loss, settings), UNTRAINED: curvature(before, settings)})
    lines = [line(trained, *ends, settings.landscape.points) for ends in combinations(trained, 2)]
    content = {"width": width, "draws": settings.landscape.draws, "models": models, "lines": lines}
    write_json(run.output(f"artifacts/landscape/{width}.json"), content)
    write_csv(run.output(f"results/landscape/{width}.csv"), [row for one in lines for row in line_rows(one)])
    run.metrics(f"results/metrics/landscape_{width}.json", summary(models, lines))


def fixed_loss(
    settings: Settings, data: PreparedData, spec: ModelSpec, device: torch.device
) -> Callable[[nn.Module], FixedLoss]:
    """The recipe's loss of any network, on the same training draws for all."""
    schedule, chosen = spec.noise_schedule().to(device), settings.landscape
    seed = torch_seed(settings.seed, Stream.LANDSCAPE)
    objective = objective_for(spec, schedule, settings.recipe.loss_weight)
    images, flips = tensor_of(data.train), settings.horizontal_flips
    batches = fixed_batches(images, spec.timesteps, chosen.draws, chosen.batch_size, seed, flips, device)
    return partial(FixedLoss, objective=objective, batches=batches)


def on(device: torch.device, net: nn.Module) -> nn.Module:
    """The network on a device, without dropout and with gradients."""
    return net.to(device).eval().requires_grad_(True)


def curvature(loss: FixedLoss, settings: Settings) -> dict[str, Any]:
    """The loss where a network stands, and the power iteration on its Hessian."""
    with torch.no_grad():
        mean = float(loss.losses().mean())
    generator = torch_generator("cpu", settings.seed, Stream.LANDSCAPE)
    found = largest_eigenvalue(loss.parts(), list(loss.net.parameters()), settings.landscape.iterations, generator)
    return {"loss": mean} | asdict(found)


def line(losses: dict[int, FixedLoss], first: int, second: int, points: int) -> dict[str, Any]:
    """Mean losses on the line from one seed's model to another's, and their barrier."""
    start, end = ([p.detach().clone() for p in losses[seed].net.parameters()] for seed in (first, second))
    found = losses_on_line(losses[first].losses, list(losses[first].net.parameters()), start, end, points)
    return {"first": first, "second": second, "losses": found.mean(1).tolist(), "barrier": asdict(barrier(found))}


def line_rows(one: dict[str, Any]) -> list[dict[str, float]]:
    """The losses on a line as rows of a table."""
    last = len(one["losses"]) - 1
    return [
        {"first": one["first"], "second": one["second"], "share": i / last, "loss": rounded(loss)}
        for i, loss in enumerate(one["losses"])
    ]


def summary(models: list[dict[str, Any]], lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest eigenvalues, with what they may be wrong by, and the barriers."""
    return {
        f"seed_{one['seed']}": {
            state: {
                "loss": one[state]["loss"],
                "eigenvalue": one[state]["quotients"][-1],
                "residual": one[state]["residuals"][-1],
            }
            for state in (TRAINED, UNTRAINED)
        }
        for one in models
    } | {f"barrier_{one['first']}_{one['second']}": one["barrier"]["height"] for one in lines}


if __name__ == "__main__":
    main()
