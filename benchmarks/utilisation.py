"""Model FLOPs utilisation: what share of a device's measured matmul rate a training uses.

`python -m benchmarks.utilisation presets/cifar10-iddpm.yaml --device cuda` multiplies large matrices and trains in
turns, in the file's precision (fp32 on a CPU). A step counts as three forward passes, attention included.
"""

import tempfile
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.timing import in_turns, keep, ratio
from benchmarks.training import advance, comparable, our_loop
from unequal.models.backbones.registry import build_network
from unequal.models.flops import count_cost, training_flops
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.tools.architecture import spec_of


def step_flops(params: Params) -> int:
    """Floating-point operations of a training step; a multiply–accumulate is two."""
    net = build_network(params.network, spec_of(params))
    return 2 * training_flops(count_cost(net).macs_with_attention, params.training.batch_size)


def measure(params: Params, device: torch.device, steps: int, rounds: int, side: int, products: int) -> dict[str, Any]:
    """Operations a second of training and of products of square matrices, and their ratio."""
    dtype = torch.bfloat16 if params.training.precision == "bf16" else torch.float32
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))

    def multiply() -> None:
        for _ in range(products):
            torch.mm(left, right)

    with tempfile.TemporaryDirectory() as folder:
        trainer = our_loop(params, device, Path(folder))
        times = in_turns({"training": lambda: advance(trainer, steps), "matmul": multiply}, rounds, device)
    flops = {"training": step_flops(params) * steps, "matmul": 2 * side**3 * products}
    speeds = {name: [flops[name] / one for one in taken] for name, taken in times.items()}
    return {
        "utilisation": ratio(speeds["training"], speeds["matmul"]),
        "flops_per_second": speeds,
        "flops_per_step": step_flops(params),
        "batch_size": params.training.batch_size,
        "precision": params.training.precision,
        "compiled": params.runtime.compile,
        "channels_last": params.runtime.channels_last,
        "matrix": side,
        "steps": steps,
        "rounds": rounds,
    }


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--device", default="cpu", show_default=True)
@click.option("--batch-size", type=int, help="images a step; default: the file's")
@click.option("--steps", default=20, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--side", default=8192, show_default=True, help="of the matrices")
@click.option("--products", default=20, show_default=True, help="of matrices in a round")
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(
    params_file: Path,
    device: str,
    batch_size: int | None,
    steps: int,
    rounds: int,
    side: int,
    products: int,
    name: str | None,
) -> None:
    """Set the training of PARAMS_FILE's base beside the device's matmul rate."""
    place = torch.device(device)
    params = comparable(Params.read(params_file), place, batch_size)
    result = measure(params, place, steps, rounds, side, products)
    click.echo(f"{100 * result['utilisation']['median']:.1f} % of the measured matmul rate")
    if name is not None:
        keep(name, result, place)


if __name__ == "__main__":
    main()
