"""The committed example of a run: `python -m unequal.report.example` takes it from results/ into docs/example/.

Every file in docs/example is taken anew from its place in results; to show another one, copy it there once.
outputs.json lists the folders that they stand in, as DVC does: the hash of each list is in dvc.lock, and shows whether
the example is of the recorded run.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from unequal.report.include import included
from unequal.runtime.files import content_hash, files_below, write_json
from unequal.settings.strict import read_yaml

RESULTS, EXAMPLE, PAGE, LOCK = Path("results"), Path("docs/example"), Path("docs/example.md"), Path("dvc.lock")
#: Listing of the run's folders, in the example's own.
LISTING = "outputs.json"

#: Folder among the outputs → its files, each with `md5` and `relpath`.
Listings = Mapping[str, Sequence[Mapping[str, str]]]


def recorded_hashes(lock: Mapping[str, Any]) -> dict[str, str]:
    """Outputs that a dvc.lock names → DVC's hashes."""
    return {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage.get("outs", [])}


def listing(folder: Path) -> list[dict[str, str]]:
    """A folder's files with their hashes, as DVC lists them."""
    files = {path.relative_to(folder).as_posix(): path for path in files_below(folder)}
    return [{"md5": content_hash(files[name], "md5"), "relpath": name} for name in sorted(files)]


def stale(folder: Path, shown: Sequence[Path], listings: Listings, lock: Mapping[str, Any]) -> list[str]:
    """Files that are not those of the run that a dvc.lock records.

    Args:
        folder: the results, or the example that was taken from them.
        shown: files, relative to the folder.
        listings: listings of the run's output folders that contain these files.
        lock: content of dvc.lock.
    """
    known = recorded_hashes(lock)
    for output, files in listings.items():
        text = json.dumps([dict(file) for file in files], sort_keys=True).encode()
        if known.get(output) == f"{hashlib.md5(text, usedforsecurity=False).hexdigest()}.dir":
            known |= {f"{output}/{file['relpath']}": file["md5"] for file in files}
    return [str(file) for file in shown if content_hash(folder / file, "md5") != known.get(str(RESULTS / file))]


def shown_files(root: Path = Path()) -> list[Path]:
    """Files of the example, relative to its folder."""
    files = [path.relative_to(root / EXAMPLE) for path in files_below(root / EXAMPLE)]
    return [file for file in files if file != Path(LISTING)]


@click.command(help=__doc__)
def main() -> None:
    """Take the example from the results, if they are those of the recorded run."""
    lock, shown = read_yaml(LOCK), shown_files()
    known = recorded_hashes(lock)
    folders = sorted({str(folder) for file in shown for folder in (RESULTS / file).parents if str(folder) in known})
    if missing := [str(RESULTS / file) for file in shown if not (RESULTS / file).exists()]:
        raise click.ClickException(f"{', '.join(missing)}: missing; run the pipeline first")
    listings = {folder: listing(Path(folder)) for folder in folders}
    if other := stale(RESULTS, shown, listings, lock):
        raise click.ClickException(f"{RESULTS}: {', '.join(other)}: not of the run in {LOCK}; run the pipeline first")
    for file in shown:
        shutil.copyfile(RESULTS / file, EXAMPLE / file)
    write_json(EXAMPLE / LISTING, listings)
    PAGE.write_text(included(PAGE.read_text(encoding="utf-8"), Path.cwd()), encoding="utf-8")


if __name__ == "__main__":
    main()
