"""Planted faults: draw some of cosmic-ray's mutants, and run the tests next to the module that has one."""

import argparse
import random
import re
import sqlite3
import subprocess
import sys
from collections import defaultdict
from itertools import chain, zip_longest
from pathlib import Path

#: Operators whose mutants raise TypeError in any test: they say nothing about the tests.
TRIVIAL = ("Bit", "Shift")


def draw(session: str, count: int, seed: int) -> None:
    """Leave so many mutants in a session, from as many modules as possible."""
    generator, by_module = random.Random(seed), defaultdict(list)
    with sqlite3.connect(session) as database:
        rows = database.execute("SELECT module_path, operator_name, occurrence, job_id FROM mutation_specs")
        for module, operator, _, job in sorted(rows):
            if not any(name in operator for name in TRIVIAL):
                by_module[module].append(job)
        for jobs in by_module.values():
            generator.shuffle(jobs)
        modules = list(by_module.values())
        generator.shuffle(modules)
        drawn = [job for job in chain.from_iterable(zip_longest(*modules)) if job is not None][:count]
        for table in ("mutation_specs", "work_items"):
            database.execute(f"DELETE FROM {table} WHERE job_id NOT IN ({','.join('?' * len(drawn))})", drawn)
    print(f"{len(drawn)} mutants of {len(by_module)} modules")


def tests_of(module: Path) -> list[str]:
    """Return the test files that mirror a module by name, then those of its package that import it."""
    folder = Path("tests", *module.parent.parts[1:])
    files = sorted(folder.rglob("test_*.py"))
    mirrors = [file for file in files if module.stem.rstrip("s") in file.stem]
    imported = re.compile(
        rf"{re.escape('.'.join(module.parent.parts))}(\.{module.stem} import|.* import .*{module.stem})"
    )
    importing = [file for file in files if imported.search(file.read_text(encoding="utf-8"))]
    return [str(file) for file in dict.fromkeys(mirrors + importing)]


def test() -> int:
    """Run the tests next to the changed module; return pytest's status."""
    changed = subprocess.run(
        ["git", "diff", "--name-only", "--", "unequal"], capture_output=True, text=True, check=True
    ).stdout.split()
    files = list(chain.from_iterable(tests_of(Path(module)) for module in changed))
    if not files:
        raise SystemExit(f"no test stands next to {', '.join(changed) or 'an unchanged module'}")
    return subprocess.run([sys.executable, "-m", "pytest", "-x", "-n0", "--tb=line", *files], check=False).returncode


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("session")
    drawing.add_argument("--count", type=int, default=30)
    drawing.add_argument("--seed", type=int, default=0)
    commands.add_parser("test")
    options = parser.parse_args()
    if options.command == "draw":
        draw(options.session, options.count, options.seed)
    else:
        sys.exit(test())


if __name__ == "__main__":
    main()
