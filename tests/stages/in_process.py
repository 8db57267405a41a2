"""A graph carried out in this process: each stage by its command, in the order of the graph, as DVC would run it."""

import contextlib
import importlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from unequal.pipeline.fingerprint import write_code
from unequal.pipeline.graph import record_finished, stages_of, stale_stages
from unequal.pipeline.sources import write_sources

if TYPE_CHECKING:
    from dvc.stage import Stage

OWN = Path("dvc.yaml")


class Engine:
    """Takes the place of `run_engine`; `ran` are the names of stages that have run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __call__(self, folder: Path, engine: str, cores: int, dry_run: bool = False) -> None:
        """Run what is stale in a folder."""
        with contextlib.chdir(folder):
            write_code(OWN)
            write_sources(OWN)
            stages = stages_of(OWN)
            # Gates are run, and nothing goes stale with them: their outputs are always equal.
            gates = [stage for stage in stages if (stage.meta or {}).get("gate")]
            self.makers = {out.def_path: stage for stage in stages if stage not in gates for out in stage.outs}
            self.stale = stale_stages(stages, lambda stage: set(self.read_by(stage)))
            for stage in (*gates, *stages):
                self.run(stage)
            record_finished(OWN)

    def read_by(self, stage: "Stage") -> Iterator[str]:
        """Outputs of other stages that a stage reads: as a whole, those in a folder, or the one that holds a file."""
        for path in (dep.def_path for dep in stage.deps if not hasattr(dep, "params")):
            for out in self.makers:
                if out == path or out.startswith(f"{path}/") or path.startswith(f"{out}/"):
                    yield out

    def run(self, stage: "Stage") -> None:
        """Run a stale stage once, after those that it waits for."""
        if stage.name not in self.stale:
            return
        self.stale.discard(stage.name)
        for out in sorted(set(self.read_by(stage))):
            self.run(self.makers[out])
        words = shlex.split(stage.cmd)
        _, module, *options = words[words.index("-m") :]
        importlib.import_module(module).main.main(args=options, standalone_mode=False)
        self.ran.append(stage.name)
