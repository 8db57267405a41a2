"""What a training step spends on all but the network: batches, the average, the optimizer, logging.

`python -m benchmarks.shares [PARAMS_FILE]` trains and times the parts within the steps, on a GPU with all that is
queued at their ends. What checkpoints cost is measured by `benchmarks.checkpoint`.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch

from benchmarks.timing import Clock, effort, keep
from benchmarks.training import advance, comparable, our_loop
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.training.batches import BatchSource
from unequal.training.loop import Trainer

#: Part of a step → who does it, and by which method.
PARTS: dict[str, tuple[Callable[[Trainer], object], str]] = {
    "batch": (lambda trainer: BatchSource, "draw"),
    "average": (lambda trainer: trainer.averages, "update"),
    "optimizer": (lambda trainer: trainer.optimizer, "step"),
    "logging": (lambda trainer: trainer, "report"),
}


@contextmanager
def watched(owner: object, method: str, device: torch.device, clock: Clock = effort) -> Iterator[list[float]]:
    """The seconds of every call of a method, within the block."""
    taken: list[float] = []
    original = getattr(owner, method)

    def timed(*given: Any, **named: Any) -> Any:
        answer: list[Any] = []
        taken.append(clock(lambda: answer.append(original(*given, **named)), device))
        return answer[0]

    setattr(owner, method, timed)
    try:
        yield taken
    finally:
        setattr(owner, method, original)


def share(trainer: Trainer, part: str, steps: int, device: torch.device) -> float:
    """Share of a part in the time of some steps."""
    find, method = PARTS[part]
    with watched(find(trainer), method, device) as taken:
        whole = effort(lambda: advance(trainer, steps), device)
    return sum(taken) / whole


def measure(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """The share of every part, as the median over rounds."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = our_loop(params, device, Path(folder))
        advance(trainer, 2)
        found = {part: [share(trainer, part, steps, device) for _ in range(rounds)] for part in PARTS}
    return {
        "shares": {part: median(shares) for part, shares in found.items()},
        "rounds": found,
        "steps": steps,
        "log_every": params.training.log_every,
        "batch_size": params.training.batch_size,
    }


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--device", default="cpu", show_default=True)
@click.option("--steps", default=50, show_default=True, help="in a round; as many as `log_every` hold one line")
@click.option("--rounds", default=3, show_default=True)
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(params_file: Path, device: str, steps: int, rounds: int, name: str | None) -> None:
    """Time the parts of a step of PARAMS_FILE's base."""
    place = torch.device(device)
    params = comparable(Params.read(params_file), place, None)
    result = measure(params, place, steps, rounds)
    for part, found in result["shares"].items():
        click.echo(f"{part:12} {100 * found:5.1f} % of a step")
    if name is not None:
        keep(name, result, place)


if __name__ == "__main__":
    main()
