"""Where the tiny pipeline lies that several test modules look at."""

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TinyPipeline:
    """A project whose pipeline has run, and notes of what its programs have opened.

    Attributes:
        project: its folder.
        notes: a folder with one file a process, `<module>.<pid>`, of the paths that it has opened.
    """

    project: Path
    notes: Path

    def copied(self, target: Path) -> Path:
        """A copy to be changed, in which both engines find nothing to do either."""
        return shutil.copytree(self.project, target, symlinks=True)
