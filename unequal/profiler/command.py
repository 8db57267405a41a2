"""The console command `unequal`: profiles of models that were trained elsewhere, and what follows from them."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from unequal.errors import UserError, one_line

FOLDER = click.Path(path_type=Path)


class Stopped(BaseException):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stoppable(goes_on: str) -> Iterator[None]:
    """End on Ctrl-C or SIGTERM with one line and the status of that signal, and on bad input with its line.

    Args:
        goes_on: what the line says of the way on.
    """

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Stopped as signalled:
        click.echo(f"stopped; {goes_on}", err=True)
        sys.exit(128 + signalled.number)
    except UserError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(one_line(error)) from None
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Timesteps are not equal: what a trained diffusion model loses at each of them, and what that suggests."""


@main.command()
@click.argument("model")
@click.option("--train", required=True, type=FOLDER, help="folder of images that it was trained on, or like them")
@click.option("--held-out", type=FOLDER, help="folder of images that it was not trained on")
@click.option("--out", default=Path("profile"), type=FOLDER, show_default=True, help="folder of what comes out")
@click.option("--against", help="another model of the same kind, met with the same draws")
@click.option("--images", default=2048, show_default=True, type=click.IntRange(2), help="used of a folder, at most")
@click.option("--timesteps", default=100, show_default=True, type=click.IntRange(2), help="measured, of all")
@click.option("--draws", default=16, show_default=True, type=click.IntRange(2), help="at each of them")
@click.option("--batch-size", default=64, show_default=True, type=click.IntRange(1), help="images at once")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1), help="of images and noise")
@click.option("--device", default="auto", show_default=True, type=click.Choice(["auto", "cpu", "cuda"]))
@click.option("--precision", default="fp32", show_default=True, type=click.Choice(["fp32", "bf16", "fp16"]))
def profile(model: str, train: Path, held_out: Path | None, device: str, **chosen: Any) -> None:
    """Measure what MODEL loses at its timesteps, a folder of diffusers or owner/name@commit on the Hub.

    Writes timesteps.json and profile.html into --out. Stopped, it goes on by the same command.
    """
    # Imported here, so that help comes at once.
    from unequal.profiler.session import Asked
    from unequal.profiler.session import profile as measure

    with stoppable("the same command goes on from here"):
        folders = {"train": train} | ({} if held_out is None else {"held_out": held_out})
        asked = Asked(model, folders, device=device_of(device), **chosen)  # type: ignore[arg-type]
        measure(asked)
        click.echo(f"{asked.out / 'profile.html'} and {asked.out / 'timesteps.json'}")


def device_of(name: str) -> Any:
    """A device by its name. Raises UserError where CUDA is asked for and there is none."""
    import torch

    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise UserError("--device cuda: PyTorch finds no CUDA here; allowed: cpu, auto")
    return torch.device("cuda" if there and name != "cpu" else "cpu")
