"""Facts of the commit that a project stands at; nothing where there is no git, or no commit."""

import subprocess
from typing import Any

import yaml

from unequal.settings.yaml12 import Yaml12


def git(*words: str) -> str | None:
    """Output of a git command in the working directory; None where it fails, or this machine has no git."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError:
        return None
    return None if done.returncode else done.stdout


def commit_tags() -> dict[str, str]:
    """Tag the commit, and whether code or settings differ from it; files that the pipeline writes do not count."""
    if (head := git("rev-parse", "HEAD")) is None:
        return {}
    changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!dvc.lock", ":!results")
    commit = head.strip()
    # MLflow's pages hide tags of its own names: the second one is for people.
    return {
        "mlflow.source.git.commit": commit,
        "git.commit": commit,
        "git.dirty": str(bool(changes)).lower(),
    }


def commit_words() -> list[str]:
    """The commit in a few words, with whether code or settings differ from it; empty where there is none."""
    tags = commit_tags()
    dirty = " with changes" if tags.get("git.dirty") == "true" else ""
    return [f"commit {tags['git.commit'][:8]}{dirty}"] if tags else []


def committed_settings() -> dict[str, Any] | None:
    """The content of params.yaml in HEAD; None where there is no commit, or no such file in it."""
    content = yaml.load(git("show", "HEAD:./params.yaml") or "", Loader=Yaml12)
    return content if isinstance(content, dict) else None
