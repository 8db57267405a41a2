"""Whether the tests notice faults: each of faults.yaml is planted in a copy of the repository, and the tests run there.

`python -m benchmarks.faults` prints a line a fault: the test that noticed it, or that none did. The tests nearest to
the faulty module run first: those that mirror it, those that import it, those of its package, then all others. `--near`
leaves the others out, `--fast` those that are marked slow; `--only 3` plants a single fault. A fault that is noticed
nearby takes seconds, one that nobody notices a whole run of the tests.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks.projects import ROOT, environment_of, run
from unequal.errors import UserError
from unequal.settings.strict import Strict, validate

FAULTS = Path(__file__).with_name("faults.yaml")
#: Folders that hold the project's code, and those that hold tests.
CODE, TESTS = ("unequal", "stages", "studies"), ("tests", "studies")
#: pytest's statuses: all passed, some failed, a file could not be read, nothing was chosen.
PASSED, FAILED, UNREADABLE, NOTHING = 0, 1, 2, 5


class Fault(Strict):
    """A fault: in the file, one text stands in another's place."""

    about: str
    file: str
    old: str
    new: str
    fault: str


class Faults(Strict):
    """All of them."""

    faults: tuple[Fault, ...]


def read_faults(path: Path = FAULTS) -> tuple[Fault, ...]:
    """The faults of a file. Raises UserError."""
    import yaml

    return validate(Faults, yaml.safe_load(path.read_text(encoding="utf-8")), path).faults


def place_of(fault: Fault, root: Path) -> Path:
    """The file that holds the old text: the fault's own, or whichever it has been moved to.

    Raises UserError where the text stands nowhere, or more than once.
    """
    own = root / fault.file
    counts = holding(fault.old, [own] if own.exists() else []) or holding(fault.old, files_below(CODE, "*.py", root))
    if sum(counts.values()) != 1:
        where = ", ".join(str(file.relative_to(root)) for file in counts) or "nowhere"
        raise UserError(f"{FAULTS.name}: '{fault.old}' of {fault.file} must stand once; it stands {where}")
    return next(iter(counts))


def holding(text: str, files: Sequence[Path]) -> dict[Path, int]:
    """The files that hold a text, and how often."""
    return {file: count for file in files if (count := file.read_text(encoding="utf-8").count(text))}


def files_below(folders: Sequence[str], names: str, root: Path) -> list[Path]:
    """Files of that name in these folders, in order."""
    return [file for folder in folders for file in sorted((root / folder).rglob(names))]


@contextmanager
def planted(fault: Fault, file: Path) -> Iterator[None]:
    """The fault is in the file for the length of the block."""
    sound = file.read_text(encoding="utf-8")
    file.write_text(sound.replace(fault.old, fault.new), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(sound, encoding="utf-8")


def near(file: Path, root: Path) -> list[str]:
    """Files of tests from the root: those that mirror a module, import it or what imports it, or are of its package."""
    tests, code = files_below(TESTS, "test_*.py", root), files_below(CODE, "*.py", root)
    mirrors = [test for test in tests if test.stem in (f"test_{file.stem}", f"test_{file.parent.name}_{file.stem}")]
    modules, seen = [file], {file}
    while modules and not (found := importing(modules, tests, root)):
        modules = [one for one in importing(modules, code, root) if one not in seen]
        seen |= {*modules}
    package = root.joinpath("tests", *file.relative_to(root).parts[1:2])
    beside = [test for test in tests if package in test.parents]
    return [str(test.relative_to(root)) for test in dict.fromkeys((*mirrors, *found, *beside))]


def importing(modules: Sequence[Path], files: Sequence[Path], root: Path) -> list[Path]:
    """Those of the files that import one of these modules themselves."""
    statements = []
    for module in modules:
        *package, name = map(re.escape, module.relative_to(root).with_suffix("").parts)
        folder = r"\.".join(package)
        statements.append(rf"from {folder}\.{name} import|import {folder}\.{name}\b|from {folder} import .*\b{name}\b")
    pattern = re.compile(rf"^\s*({'|'.join(statements)})", re.MULTILINE)
    return [file for file in files if pattern.search(file.read_text(encoding="utf-8"))]


def first_failure(root: Path, tests: Sequence[str], marks: str) -> str | None:
    """The first test that fails, in this order of files or folders; None where all pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-x", "--tb=no", "-rfE", "-m", marks, *tests],
        cwd=root,
        env=environment_of(root),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in (PASSED, NOTHING):
        return None
    if done.returncode not in (FAILED, UNREADABLE):
        raise UserError(f"pytest ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return str(failed[0]) if failed else done.stdout.strip().splitlines()[-1]


def noticed_by(fault: Fault, root: Path, only_near: bool, only_fast: bool) -> str | None:
    """The test that notices a fault, the nearest tests asked first."""
    file = place_of(fault, root)
    closest = near(file, root)
    with planted(fault, file):
        asked = closest if only_near else [*closest, *TESTS]
        for marks in ("not slow",) if only_fast else ("not slow", "slow and not thorough"):
            if asked and (found := first_failure(root, asked, marks)) is not None:
                return found
    return None


@contextmanager
def copy() -> Iterator[Path]:
    """All files of the repository as they are now, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        for name in run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, Path(folder) / name)
        run(Path(folder), "git", "init", "-q")
        yield Path(folder)


def refuse_failing(tests: Sequence[str], root: Path) -> None:
    """Raise UserError where a test that is said to have noticed a fault fails without one."""
    if tests and (failed := first_failure(root, tests, "not thorough")) is not None:
        raise UserError(f"{failed} fails without a fault")


@click.command(help=__doc__)
@click.option("--only", type=int, multiple=True, help="Number of a fault, from 1; may be given again.")
@click.option("--near", "only_near", is_flag=True, help="Ask no other tests than the nearest.")
@click.option("--fast", "only_fast", is_flag=True, help="Leave out the tests that are marked slow.")
def main(only: tuple[int, ...], only_near: bool, only_fast: bool) -> None:
    """Plant the faults; the status is 1 where one was missed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    chosen = {number: fault for number, fault in enumerate(read_faults(), 1) if not only or number in only}
    noticed: list[str] = []
    with copy() as root:
        for number, fault in chosen.items():
            if (found := noticed_by(fault, root, only_near, only_fast)) is not None:
                noticed.append(found)
            click.echo(f"{number:3d}  {fault.about:9} {found or 'MISSED'}  {fault.file}: {fault.fault}")
        refuse_failing(sorted({*noticed}), root)
    click.echo(f"{len(noticed)} of {len(chosen)} noticed")
    sys.exit(len(noticed) < len(chosen))


if __name__ == "__main__":
    main()
