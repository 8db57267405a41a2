"""Copy generated Markdown into documents: `python -m unequal.report.include [--check] FILES…`.

A document names a file, relative to the project's root, between two markers; what stands between them is replaced:

    <!-- table: results/tables/fid.md -->
    <!-- /table -->
"""

import re
from pathlib import Path

import click

PLACE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def included(text: str, root: Path) -> str:
    """Insert the current tables into a document's text. Raises OSError where a table's file is missing."""
    return PLACE.sub(lambda found: f"{found[1]}{(root / found[2]).read_text(encoding='utf-8')}{found[3]}", text)


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Change nothing; fail if a document differs.")
@click.argument("documents", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(check: bool, documents: tuple[Path, ...]) -> None:
    """Update documents, or check them."""
    for path in documents:
        text = path.read_text(encoding="utf-8")
        try:
            updated = included(text, Path.cwd())
        except OSError as error:
            raise click.ClickException(f"{path}: {error.filename}: {error.strerror}") from None
        if check and updated != text:
            raise click.ClickException(f"{path}: tables differ from their files; run python -m {__spec__.name} {path}")
        if not check:
            path.write_text(updated, encoding="utf-8")


if __name__ == "__main__":
    main()
