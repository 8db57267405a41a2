"""Facts of the commit that a project stands at; nothing where there is no git, or no commit."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from unequal.settings.strict import Yaml12


def commit_tags() -> dict[str, str]:
    """Tag the commit, and whether code or settings differ from it; files that the pipeline writes do not count."""
    git = partial(subprocess.run, capture_output=True, text=True, errors="replace", check=False)
    try:
        head = git(["git", "rev-parse", "HEAD"])
        changes = git(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!dvc.lock", ":!results"])
    except OSError:  # no git on this machine
        return {}
    if head.returncode:
        return {}
    commit = head.stdout.strip()
    # MLflow's pages hide tags of its own names: the second one is for people.
    return {
        "mlflow.source.git.commit": commit,
        "git.commit": commit,
        "git.dirty": str(bool(changes.stdout)).lower(),
    }


def commit_words() -> list[str]:
    """The commit in a few words, with whether code or settings differ from it; empty where there is none."""
    tags = commit_tags()
    dirty = " with changes" if tags.get("git.dirty") == "true" else ""
    return [f"commit {tags['git.commit'][:8]}{dirty}"] if tags else []


def committed_settings(root: Path) -> dict[str, Any] | None:
    """The content of params.yaml in HEAD; None where there is no commit, or no such file in it."""
    try:
        shown = subprocess.run(["git", "show", "HEAD:./params.yaml"], cwd=root, capture_output=True, check=False)
    except OSError:  # no git on this machine
        return None
    if shown.returncode:
        return None
    content = yaml.load(shown.stdout, Loader=Yaml12)
    return content if isinstance(content, dict) else None
