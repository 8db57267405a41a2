"""`unequal` and `python -m unequal`: the command line, or one line that says which libraries it lacks."""

import sys

from unequal.errors import MissingExtra


def main() -> None:
    """Run the command line."""
    try:
        from unequal.cli.main import run
    except MissingExtra as error:
        sys.exit(f"Error: {error}")
    run()


if __name__ == "__main__":
    main()
