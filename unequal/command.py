"""The console command `unequal`, which needs an extra: without it one line says which."""

import sys

from unequal.errors import MissingExtra


def main() -> None:
    """Run the command line."""
    try:
        from unequal.profiler.command import run
    except MissingExtra as error:
        sys.exit(f"Error: {error}")
    run()


if __name__ == "__main__":
    main()
