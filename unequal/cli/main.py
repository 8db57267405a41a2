"""The command group: subcommands are imported on use, and every failure ends in one line."""

import signal
import sys
from importlib import import_module
from types import FrameType

import click

from unequal.errors import DISTRIBUTION, UserError, missing, needs, one_line, say
from unequal.runtime.environment import Stopped, drop_variables, prepare_streams, signals_to_stop

#: Extra → libraries that only this extra installs; its subcommands need them.
BROUGHT = {"pipeline": ("dvc", "mlflow", "snakemake", "torch_pruning"), "profile": ("peft", "transformers")}
#: Subcommand → module of its click command.
SUBCOMMANDS = dict.fromkeys(
    ("init", "check", "try", "estimate", "weights", "sample", "export", "average", "ui", "plots", "accept", "schema"),
    "unequal.cli.commands",
) | {
    "compare": "unequal.experiments.command",
    "profile": "unequal.profiler.commands",
    "suggest": "unequal.profiler.commands",
}
#: Subcommand that does not need the pipeline's extra → the extra that it needs; None: no extra.
OTHER_EXTRAS = {"profile": "profile", "suggest": None}
#: Offset to a signal's number that gives the exit status by which shells report the signal.
SIGNALLED = 128


class Subcommands(click.Group):
    """Group of the SUBCOMMANDS whose extra is installed. Help imports neither PyTorch nor diffusers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in SUBCOMMANDS if not missing(libraries_of(name)[1])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        extra, libraries = libraries_of(cmd_name)
        needs(f"unequal {cmd_name}", extra, *libraries)
        module = import_module(SUBCOMMANDS[cmd_name])
        command: click.Command = getattr(module, "try_out" if cmd_name == "try" else cmd_name)
        return command


def libraries_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Extra of a subcommand, and the libraries that only this extra installs."""
    extra = OTHER_EXTRAS.get(name, "pipeline")
    return (extra, BROUGHT[extra]) if extra else ("pipeline", ())


@click.group(cls=Subcommands)
@click.version_option(package_name=DISTRIBUTION)
def unequal() -> None:
    """Train diffusion models knowing that timesteps are not equal."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and leave the process.

    The exit status is 0, 1 after one line on what failed, 2 for wrong usage, or 128 + n for signal n.
    """
    drop_variables(launched=False)
    prepare_streams()
    previous = {number: signal.signal(number, stop) for number in signals_to_stop()}
    try:
        unequal.main(arguments, prog_name="unequal", standalone_mode=False)
        sys.stdout.flush()  # an error here, such as a full disk, counts too
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        fail(error.format_message(), status=error.exit_code)
    except UserError as error:
        fail(*str(error).split("\n"))
    except OSError as error:  # a folder without write permission
        fail(one_line(error))
    except Exception as error:
        from unequal.runtime.files import storage_refusal

        if (refusal := storage_refusal(error)) is None:  # libraries wrap a full disk in errors of their own
            raise
        fail(refusal)
    except Stopped as stopped:
        say("", "Stopped. Run the same command again to continue.", err=True)
        sys.exit(SIGNALLED + stopped.number)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def fail(*lines: str, status: int = 1) -> None:
    """Print a line for each error, and leave the process."""
    say(*(f"Error: {line}" for line in lines), err=True)
    sys.exit(status)


def stop(number: int, _: FrameType | None) -> None:
    """End the process at once, which is safe since files are written atomically."""
    raise Stopped(number)
