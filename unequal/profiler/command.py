"""`unequal`: its subcommands, each imported when it is asked for, and how it ends."""

import signal
import sys
from importlib import import_module
from types import FrameType

import click

from unequal.errors import MissingExtra, UserError, one_line

#: Name of a subcommand → module and name of its click command, and what is said of it in the list of all.
SUBCOMMANDS = {
    "profile": ("unequal.profiler.profile_command:profile", "Measure what a diffusion model loses at each timestep."),
    "suggest": ("unequal.profiler.suggest_command:suggest", "Say what those losses suggest for training and sampling."),
}
#: As a shell tells of processes that a signal ended.
SIGNALLED = 128


class Stopped(BaseException):
    """The process was asked to end, by a signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Subcommands(click.Group):
    """Those of SUBCOMMANDS. Help alone loads neither PyTorch nor diffusers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _, name = SUBCOMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in SUBCOMMANDS.items()])


@click.group(cls=Subcommands)
def unequal() -> None:
    """Diffusion models, knowing that timesteps are not equal."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line, and leave the process: 0, 1 with one line, 2 for wrong usage, 128 + n for a signal."""
    previous = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        unequal.main(arguments, prog_name="unequal", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.UsageError as error:
        click.echo(f"Error: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except (UserError, MissingExtra, click.ClickException) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except OSError as error:  # a disk that is full, a folder that may not be written to
        click.echo(f"Error: {one_line(error)}", err=True)
        sys.exit(1)
    except Stopped as stopped:
        click.echo("\nStopped. The same command goes on from here.", err=True)
        sys.exit(SIGNALLED + stopped.number)
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)


def stop(number: int, _: FrameType | None) -> None:
    """End at once: whatever is kept for a next attempt appears whole or not at all."""
    raise Stopped(number)
