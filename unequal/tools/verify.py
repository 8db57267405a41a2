"""Whether the present code makes what the code did by which results were recorded, shown by a small run of both."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from unequal.errors import UserError
from unequal.files import content_hash, read_json, write_json
from unequal.pipeline.engines import snakemake
from unequal.pipeline.fingerprint import CODE, fingerprint, programs
from unequal.pipeline.project import checkout, work_root
from unequal.settings.strict import PARAMS, read_yaml
from unequal.tools.lines import Executed, Side, unexecuted
from unequal.tools.outputs import differences

#: Beside a params.yaml: what a small run changes of it.
TINY = "tiny.yaml"
#: How many complaints are shown.
SHOWN, SHOWN_CHARACTERS = 20, 2000
#: Read by every Python that finds its folder on its path.
HOOK = "import coverage\n\ncoverage.process_startup()\n"


@dataclass(frozen=True)
class Tiny:
    """A copy of the project with small budgets, in which a graph is run.

    Attributes:
        root: the copy.
        folder: that of the dvc.yaml, below the root.
    """

    root: Path
    folder: Path

    @property
    def place(self) -> Path:
        """The folder of the dvc.yaml."""
        return self.root / self.folder

    def run(self) -> None:
        """Run the graph by Snakemake, noting which lines are executed. Raises UserError where it fails."""
        notes = self.root.with_name(f"{self.root.name}.lines")
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        (notes / "sitecustomize.py").write_text(HOOK)
        settings = f"[run]\nparallel = true\ndata_file = {notes}/lines\nsource = {self.root}\n"
        (notes / "settings").write_text(f"{settings}disable_warnings = no-data-collected\n")
        path = os.pathsep.join([str(notes), str(self.root)])
        noting = {"COVERAGE_PROCESS_START": str(notes / "settings"), "PYTHONPATH": path}
        done = snakemake(self.root, self.folder, noting, "--cores", str(len(os.sched_getaffinity(0))))
        if done.returncode:
            raise UserError(
                f"{self.root}: the small run failed; its logs are in {self.place / 'logs'}\n{done.stdout[-2000:]}"
            )

    def executed(self) -> Executed:
        """The lines that the run has executed, by file below the root."""
        from coverage import CoverageData

        found: Executed = {}
        for file in self.root.with_name(f"{self.root.name}.lines").glob("lines.*"):
            data = CoverageData(str(file))
            data.read()
            for name in data.measured_files():
                path = Path(name).relative_to(self.root).as_posix()
                found.setdefault(path, set()).update(data.lines(name) or [])
        return found

    def modules(self) -> tuple[set[str], set[str]]:
        """The modules and the texts that count for the graph's programs."""
        codes = [fingerprint(self.root / one, self.root) for one in programs(self.place / "dvc.yaml").values()]
        return {name for code in codes for name in code["modules"]}, {name for code in codes for name in code["texts"]}

    def outs(self) -> set[str]:
        """What the graph's stages make, but for what tells of their code."""
        from dvc.repo import Repo

        stages = Repo(str(self.root)).stage.load_all(str(self.place / "dvc.yaml"))
        return {out.def_path for stage in stages if stage.name != "code" for out in stage.outs}


def git(root: Path, *command: str) -> str:
    """The output of a git command. Raises UserError where it fails."""
    done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"git {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def commit_of(lock: Path) -> str:
    """The commit that last wrote a lock file. Raises UserError where there is none, or the file differs from it."""
    if not lock.exists():
        raise UserError(f"{lock}: missing; nothing has been recorded that the present code could make again")
    if git(lock.parent, "status", "--porcelain", "--", lock.name):
        raise UserError(f"{lock}: differs from the last commit; commit or restore it")
    return git(lock.parent, "log", "-1", "--format=%H", "--", lock.name).strip()


def verify(graph: Path, commit: str) -> None:
    """Run a commit, and the present code, on a small scale by the dvc.yaml of a folder, and compare.

    Raises:
        UserError: a run fails, an output differs, or a changed line was not executed in either run; or the results
            were not made by that commit's code and the libraries that are here.
    """
    folder = graph.resolve().parent
    root = checkout(folder)
    work = work_root().resolve() / "verify"
    before, after = (Tiny(work / name, folder.relative_to(root)) for name in ("before", "after"))
    # Whoever mends what was refused need not wait for the commit's run again.
    if not (had_run := work / "before.json").exists() or read_json(had_run) != conditions(commit, folder):
        had_run.unlink(missing_ok=True)
        check_out(root, commit, before.root)
        run_small(before, folder)
        write_json(had_run, conditions(commit, folder))
    copy(root, after.root)
    run_small(after, folder)
    complaints = [*other_code(before), *differences(before.place, after.place, (before.outs(), after.outs()))]
    complaints += unseen(before, after)
    if complaints:
        more = f"\n… and {len(complaints) - SHOWN} more" if len(complaints) > SHOWN else ""
        raise UserError(f"not what commit {commit[:12]} makes:\n" + "\n".join(complaints[:SHOWN]) + more)
    git(root, "worktree", "remove", "--force", str(before.root))
    shutil.rmtree(work)


def run_small(tiny: Tiny, folder: Path) -> None:
    """Run a copy with the small budgets that lie in a folder."""
    shrink(tiny.place / PARAMS, folder / TINY)
    tiny.run()


def conditions(commit: str, folder: Path) -> dict[str, Any]:
    """What a commit's small run depends on: the graph, its budgets, Python and all that is installed."""
    installed = {one.name: one.version for one in distributions()}
    budgets = content_hash(folder / TINY)
    return {"commit": commit, "folder": str(folder), "tiny": budgets, "python": sys.version, "installed": installed}


def other_code(before: Tiny) -> list[str]:
    """Programs whose code or libraries, here and in a commit, are not those that its lock file tells of.

    Lock files from before there were fingerprints tell of none.
    """
    stages = read_yaml(before.place / "dvc.lock")["stages"].values()
    told = {dep["path"]: dep["md5"] for stage in stages for dep in stage.get("deps", []) if "md5" in dep}
    files = [name for name in told if Path(name).parent == CODE]
    other = [name for name in files if content_hash(before.place / name, "md5") != told[name]]
    return [f"{name}: the results were made by other code or libraries than are here" for name in sorted(other)]


def unseen(before: Tiny, after: Tiny) -> list[str]:
    """Changes of the code that no run has shown to make no difference."""
    (old, old_texts), (new, new_texts) = before.modules(), after.modules()
    lines = unexecuted(Side(before.root, old, before.executed()), Side(after.root, new, after.executed()))
    texts = [name for name in sorted(old_texts | new_texts) if text_of(before, name) != text_of(after, name)]
    return [f"{line}  (changed, not executed)" for line in lines] + [f"{name}: changed, a text" for name in texts]


def text_of(tiny: Tiny, name: str) -> str | None:
    """The digest of a text, None where there is none."""
    return content_hash(tiny.root / name) if (tiny.root / name).exists() else None


def check_out(root: Path, commit: str, target: Path) -> None:
    """Have a commit in a worktree of its own."""
    shutil.rmtree(target, ignore_errors=True)
    git(root, "worktree", "prune")
    git(root, "worktree", "add", "--detach", str(target), commit)


def copy(root: Path, target: Path) -> None:
    """Copy all files of the working tree that git does not ignore, as they are now, into a repository of their own."""
    shutil.rmtree(target, ignore_errors=True)
    names = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (root / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)
    git(target, "init", "-q")


def shrink(params: Path, tiny: Path) -> None:
    """Change a params file as another file of dotted keys says. Raises UserError where that is missing."""
    if not tiny.exists():
        raise UserError(f"{tiny}: missing; it says which settings make a small run, by dotted keys of {PARAMS}")
    document = read_yaml(params)
    for dotted, value in read_yaml(tiny).items():
        *sections, last = dotted.split(".")
        section = document
        for name in sections:
            if not isinstance(section.get(name), dict):
                raise UserError(f"{tiny}: {dotted}: there is no such section in {params}")
            section[name] = dict(section[name])  # by an anchor, other sections may be the same one
            section = section[name]
        if value is None:
            section.pop(last, None)
        else:
            section[last] = value
    params.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
