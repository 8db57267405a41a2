"""Whether the present code makes what the code did by which results were recorded, shown by a small run of both."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from unequal.errors import UserError
from unequal.files import content_hash, read_json, write_json
from unequal.pipeline.engines import snakemake
from unequal.pipeline.fingerprint import CODE, Fingerprint, fingerprint, programs
from unequal.pipeline.project import checkout, work_root
from unequal.settings.strict import PARAMS, read_yaml
from unequal.tools.lines import Executed, Side, unentered, unexecuted
from unequal.tools.outputs import differences

if TYPE_CHECKING:
    from dvc.dependency.base import Dependency
    from dvc.stage import Stage

#: Beside a params.yaml: what a small run changes of it.
TINY = "tiny.yaml"
GRAPH, LOCK = "dvc.yaml", "dvc.lock"
#: Writes the files that tell of the code, by a checkout's own way, and of nothing else.
FINGERPRINTS = f"""
from pathlib import Path
from unequal.pipeline.fingerprint import write_fingerprints
write_fingerprints(Path("{GRAPH}").resolve())
"""
#: Folders of copies, below that of the work: the present code, and a commit that is being looked at.
AFTER, BEFORE = "after", "before"
#: How many commits before the one that last wrote a lock file are looked at for the code that made its results.
LOOKED_AT = 100
#: How many complaints are shown, and how much of what Snakemake has said.
SHOWN, SHOWN_CHARACTERS = 20, 2000
#: MD5s of the files that tell of programs' code, by the programs' names.
Code = dict[str, str]
#: Read by every Python that finds its folder on its path.
HOOK = "import coverage\n\ncoverage.process_startup()\n"


@dataclass(frozen=True)
class Tiny:
    """A copy of the project with small budgets, in which a graph is run.

    Attributes:
        root: the copy.
        folder: that of the dvc.yaml, below the root.
        standing: names of the dvc.yaml's entries that need not be run, since their record is of the present code.
    """

    root: Path
    folder: Path
    standing: frozenset[str] = frozenset()

    @property
    def place(self) -> Path:
        """The folder of the dvc.yaml."""
        return self.root / self.folder

    def run(self, names: set[str]) -> None:
        """Run stages by programs of these names, and what they need, noting which lines are executed.

        Raises UserError where that fails.
        """
        notes = self.root.with_name(f"{self.root.name}.lines")
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        (notes / "sitecustomize.py").write_text(HOOK)
        settings = f"[run]\nparallel = true\ndata_file = {notes}/lines\nsource = {self.root}\n"
        (notes / "settings").write_text(f"{settings}disable_warnings = no-data-collected\n")
        path = os.pathsep.join([str(notes), str(self.root)])
        noting = {"COVERAGE_PROCESS_START": str(notes / "settings"), "PYTHONPATH": path}
        cores = str(len(os.sched_getaffinity(0)))
        done = snakemake(self.root, self.folder, noting, "--cores", cores, *sorted(self.outs(names)))
        if done.returncode:
            logs, said = self.place / "logs", done.stdout[-SHOWN_CHARACTERS:]
            raise UserError(f"{self.root}: the small run failed; its logs are in {logs}\n{said}")

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

    def modules(self, names: set[str]) -> set[str]:
        """The modules that count for programs of these names."""
        return {module for code in self.fingerprints(names) for module in code["modules"]}

    def texts(self, names: set[str]) -> set[str]:
        """The texts that count for them."""
        return {text for code in self.fingerprints(names) for text in code["texts"]}

    def fingerprints(self, names: set[str]) -> list[Fingerprint]:
        """Of programs of these names."""
        files = programs(self.place / GRAPH).items()
        return [fingerprint(self.root / file, self.root) for name, file in files if name in names]

    def outs(self, names: set[str]) -> set[str]:
        """What the graph's stages by programs of these names make, but for those that stand."""
        from dvc.repo import Repo

        stages = Repo(str(self.root)).stage.load_all(str(self.place / GRAPH))
        asked = (stage for stage in stages if entry_of(stage.name) not in self.standing)
        chosen = [stage for stage in asked if {Path(dep.def_path).stem for dep in code_of(stage)} & names]
        return {out.def_path for stage in chosen for out in stage.outs}

    def codes(self) -> Code:
        """The MD5 of the file that tells of each program's code, by the program's name; they are brought up to date.

        Empty for a checkout that has no such files, as from before there were any, or no such graph.
        """
        if not self.place.is_dir():
            return {}
        path = os.pathsep.join([str(self.root), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-P", "-c", FINGERPRINTS]
        done = subprocess.run(
            command, cwd=self.place, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return {}
        return {file.stem: content_hash(file, "md5") for file in (self.place / CODE).glob("*.json")}


def code_of(stage: "Stage") -> list["Dependency"]:
    """The dependencies of a stage that tell of its code."""
    return [dep for dep in stage.deps if Path(dep.def_path).parent == CODE]


def git(root: Path, *command: str) -> str:
    """The output of a git command. Raises UserError where it fails."""
    done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"git {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def refuse_changed(lock: Path) -> None:
    """Raise UserError where there is no lock file, or it differs from the last commit."""
    if not lock.exists():
        raise UserError(f"{lock}: missing; nothing has been recorded that the present code could make again")
    if git(lock.parent, "status", "--porcelain", "--", lock.name):
        raise UserError(f"{lock}: differs from the last commit; commit or restore it")


def codes_told(text: str) -> dict[str, Code]:
    """What a lock file tells of the code of each stage: the program's name and the MD5 of the file about it."""
    stages = yaml.safe_load(text)["stages"]
    return {
        name: {Path(dep["path"]).stem: dep["md5"] for dep in one.get("deps", []) if Path(dep["path"]).parent == CODE}
        for name, one in stages.items()
    }


def standing(graph: Path, told: Mapping[str, Code], now: Code) -> frozenset[str]:
    """The entries of a dvc.yaml without a recorded stage that other code than the present one has made."""
    others = {entry_of(name) for name, code in told.items() if not code.items() <= now.items()}
    return frozenset(read_yaml(graph)["stages"]) - others


def entry_of(stage: str) -> str:
    """The entry of a dvc.yaml that a stage is, alone or as one of many."""
    return stage.partition("@")[0]


def makers(folder: Path, work: Path, told: Mapping[str, Code], now: Code) -> dict[str, set[str]]:
    """The commits whose code has made what a lock file tells of and the present code has not: names of the programs.

    Raises:
        UserError: a stage was made by the code of no commit that is looked at, or by other libraries than are here.
    """
    root = checkout(folder)
    left = {one for stage in told.values() for one in stage.items()} - set(now.items())
    found: dict[str, set[str]] = {}
    for commit in candidates(folder):
        if not left:
            break
        check_out(root, commit, work / BEFORE)
        made = left & set(Tiny(work / BEFORE, folder.relative_to(root)).codes().items())
        found |= {commit: {name for name, _ in made}} if made else {}
        left -= made
    if left:
        names = ", ".join(sorted({name for name, _ in left}))
        raise UserError(f"{folder / GRAPH}: made by code of no commit before its lock, or by other libraries: {names}")
    return found


def candidates(folder: Path) -> list[str]:
    """The commits that wrote the lock file of a folder, from the last one back, and then those before the last one."""
    wrote = git(folder, "log", "--format=%H", "--", LOCK).split()
    others = git(folder, "log", "--format=%H", f"--max-count={LOOKED_AT}", *wrote[:1]).split()
    return list(dict.fromkeys([*wrote, *others]))


def verify(graph: Path, trusting: bool) -> list[str]:
    """Run what has made a graph's recorded results, and the present code, on a small scale, and compare.

    Args:
        graph: a dvc.yaml beside its lock file.
        trusting: whether changes that no run has executed are taken on trust.

    Returns:
        These changes.

    Raises:
        UserError: a run fails, an output differs, or a changed line was not executed in either run; or the results
            were not made by the code of a commit that is looked at, and the libraries that are here.
    """
    folder = graph.resolve().parent
    root = checkout(folder)
    work = work_root().resolve() / "verify"
    trusted: list[str] = []
    copy(root, work / AFTER)
    after = Tiny(work / AFTER, folder.relative_to(root))
    told, now = codes_told((folder / LOCK).read_text(encoding="utf-8")), after.codes()
    after = replace(after, standing=standing(graph, told, now))
    found = makers(folder, work, told, now)
    if found:
        run_small(after, folder, set().union(*found.values()))
    for commit, names in found.items():
        before = run_before(replace(after, root=work / commit[:12]), commit, folder, names)
        complaints = differences(before.place, after.place, (before.outs(names), after.outs(names)))
        complaints += other_texts(before, after, names)
        skipped = unseen(before, after, names)
        complaints += [] if trusting else skipped
        if complaints:
            more = f"\n… and {len(complaints) - SHOWN} more" if len(complaints) > SHOWN else ""
            raise UserError(f"not what commit {commit[:12]} makes:\n" + "\n".join(complaints[:SHOWN]) + more)
        trusted += skipped
    shutil.rmtree(work)
    git(root, "worktree", "prune")
    return sorted(set(trusted))


def run_before(tiny: Tiny, commit: str, folder: Path, names: set[str]) -> Tiny:
    """A commit's small run. Whoever mends what was refused need not wait for it again."""
    had_run = tiny.root.with_name(f"{tiny.root.name}.json")
    known = conditions(commit, folder, names) | {"standing": sorted(tiny.standing)}
    if not had_run.exists() or read_json(had_run) != known:
        had_run.unlink(missing_ok=True)
        check_out(checkout(folder), commit, tiny.root)
        run_small(tiny, folder, names, is_older=True)
        write_json(had_run, known)
    return tiny


def run_small(tiny: Tiny, folder: Path, names: set[str], *, is_older: bool = False) -> None:
    """Run programs of a copy with the small budgets that lie in a folder; older code may lack some of the sections."""
    shrink(tiny.place / PARAMS, folder / TINY, passing_over=is_older)
    tiny.run(names)


def conditions(commit: str, folder: Path, names: set[str]) -> dict[str, Any]:
    """What a commit's small run depends on: the graph, programs, budgets, Python and all that is installed."""
    installed = {one.name: one.version for one in distributions()}
    budgets = content_hash(folder / TINY)
    told = {"commit": commit, "folder": str(folder), "programs": sorted(names)}
    return told | {"tiny": budgets, "python": sys.version, "installed": installed}


def unseen(before: Tiny, after: Tiny, names: set[str]) -> list[str]:
    """Changes of the code of programs of these names that no run has shown to make no difference."""
    old, new = (Side(one.root, one.modules(names), one.executed()) for one in (before, after))
    lines = [f"{line}  (changed, not executed)" for line in unexecuted(old, new)]
    return lines + [f"{one}  (changed, not entered)" for one in unentered(old, new)]


def other_texts(before: Tiny, after: Tiny, names: set[str]) -> list[str]:
    """Texts that count for programs of these names and say something else."""
    texts = sorted(before.texts(names) | after.texts(names))
    return [f"{name}: changed, a text" for name in texts if text_of(before, name) != text_of(after, name)]


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


def shrink(params: Path, tiny: Path, *, passing_over: bool = False) -> None:
    """Change a params file as another file of dotted keys says.

    Raises UserError where that file is missing, or a section in the first, unless such keys are passed over.
    """
    if not tiny.exists():
        raise UserError(f"{tiny}: missing; it says which settings make a small run, by dotted keys of {PARAMS}")
    document = read_yaml(params)
    for dotted, value in read_yaml(tiny).items():
        *sections, last = dotted.split(".")
        section = inner(document, sections)
        if section is None and not passing_over:
            raise UserError(f"{tiny}: {dotted}: there is no such section in {params}")
        if section is not None and value is None:
            section.pop(last, None)
        elif section is not None:
            section[last] = value
    params.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def inner(document: dict[str, Any], sections: list[str]) -> dict[str, Any] | None:
    """A section of a document, to be changed there alone: by an anchor, others may be the same one; None: not there."""
    for name in sections:
        if not isinstance(document.get(name), dict):
            return None
        document[name] = dict(document[name])
        document = document[name]
    return document
