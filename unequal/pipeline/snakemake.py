"""The graph of a dvc.yaml as Snakemake rules: one rule a stage instance, made from DVC's resolved index.

A folder's Snakefile includes `RULES`, which make a rule of each `Job`. dvc.lock says which stages are stale, as for
`dvc repro`, and takes up what has finished: neither engine has anything left to do after the other.
"""

import atexit
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from filelock import FileLock, Timeout
from snakemake.exceptions import WorkflowError
from snakemake.io import ancient, directory, report
from snakemake.logging import logger

from unequal.errors import UserError, say
from unequal.pipeline.attempt import SNAKEMAKE
from unequal.pipeline.engines import ALONE, StopFilter, interrupt_once, print_recommendation, print_summary
from unequal.pipeline.fingerprint import edited_since, write_code
from unequal.pipeline.folders import update_graph
from unequal.pipeline.gpus import LENT, machine_gpus
from unequal.pipeline.graph import record_finished, record_or_report, stages_of, stale_stages
from unequal.pipeline.sources import write_sources
from unequal.pipeline.workdirs import clear_finished
from unequal.report.captions import CAPTIONS, FIRST_SCREEN
from unequal.runtime.place import ROOT
from unequal.settings.strict import PARAMS, read_yaml
from unequal.settings.training import Runtime

if TYPE_CHECKING:
    from dvc.stage import Stage

#: What a Snakefile includes.
RULES = str(Path(__file__).with_name("rules.smk"))
GRAPH, LOGS = Path("dvc.yaml"), Path("logs")
#: Stale stages read this file, newer than any output and never the same. The times of other files do not count.
TO_RUN = Path(".snakemake/stale")
#: Megabytes at the first attempt: libraries (with CUDA's), Snakemake twice in a job, and room for networks and images.
MEMORY_MB = {"cpu": 4000, "gpu": 8000}
#: How Snakemake's report captions each picture of a page.
CAPTION = str(ROOT / "unequal/report/caption.rst")


class Engine:
    """One start of Snakemake in the folder of a dvc.yaml, or one of its jobs.

    Attributes:
        jobs: stage instances.
        stale: names of those that are to run; unknown in a job, which runs what it is asked for.
    """

    def __init__(self, workflow: Any, config: dict[str, Any]) -> None:
        self.workflow, self.filter = workflow, StopFilter()
        if unknown := sorted(config.keys() - {"cluster", "gpu"}):
            raise WorkflowError(
                f"--config {unknown[0]}: unknown; allowed: cluster, gpu; all settings stand in {PARAMS}"
            )
        # The profile of a cluster sets it, and must name a partition.
        self.on_cluster = config.get("cluster") is not None
        if config.get("cluster") == "slurm" and "slurm_partition" not in workflow.resource_settings.default_resources:
            raise WorkflowError("profile: default-resources: slurm_partition: missing; `sinfo` lists the partitions")
        # Jobs inherit it, on a cluster too: their outputs stay stored until they are recorded.
        os.environ[SNAKEMAKE] = "1"
        os.environ.setdefault("PYTHONPATH", str(ROOT))
        # Jobs skip this: their code must not change under them, and the imports of the checks take seconds.
        if workflow.is_main_process:
            self.prepare()
        runtime = read_yaml(PARAMS)["runtime"]
        self.threads = runtime.get("threads", Runtime.model_fields["threads"].default)
        self.processes = runtime.get("processes") or 1
        # A cluster hands GPUs out. On one machine, a stage takes as many as it has processes; several may share one.
        self.has_gpu = str(config.get("gpu", shutil.which("nvidia-smi") is not None)).lower() == "true"
        gpus = machine_gpus() if self.has_gpu and not self.on_cluster and runtime["device"] != "cpu" else []
        self.gpus = gpus * runtime.get("stages_per_gpu", Runtime.model_fields["stages_per_gpu"].default)
        if "local_gpu" not in workflow.resource_settings.resources:
            workflow.register_resource("local_gpu", len(self.gpus))
        config["captions"] = FIRST_SCREEN | CAPTIONS
        self.jobs = [Job(self, stage) for stage in stages_of(GRAPH)]
        self.makers = {out.def_path: job for job in self.jobs for out in job.stage.outs}
        self.stale = set[str]()
        if workflow.is_main_process:
            self.stale = stale_stages([job.stage for job in self.jobs], lambda stage: Job(self, stage).paths)
            TO_RUN.write_text(str(uuid4()))
            if not self.stale and not self.dry_run:
                atexit.register(print_recommendation, Path("results/take.json"))  # the last line
            logger.addFilter(self.filter)

    @property
    def dry_run(self) -> bool:
        """Say whether nothing is to run."""
        return bool(self.workflow.output_settings.dryrun)

    def prepare(self) -> None:
        """Check the settings, do DVC's stage `code`, record what a killed engine has left, and lock the folder."""
        from unequal.pipeline.params_files import check_params, read_params

        if not self.dry_run:
            say(f"Progress of each stage, a line every 30 s, in {LOGS.absolute()}/*.log", err=True)
        try:
            try:
                read_params()
            except UserError:
                check_params()  # images and weights too: all that is wrong in one answer
                raise
            update_graph()
            record_finished(GRAPH)
            write_code(GRAPH)
            write_sources(GRAPH)
        except UserError as error:
            raise WorkflowError(str(error)) from None
        # Snakemake's locks and its marks of unfinished jobs survive its kill, and would stop the next one or run jobs
        # again. The system frees this lock instead; outputs appear whole, and dvc.lock decides what is stale.
        self.alone = FileLock(ALONE)
        try:
            self.alone.acquire(timeout=0)
        except Timeout:
            # Snakemake would call the other one's files incomplete, and advise to delete them.
            if not self.dry_run:
                raise WorkflowError(
                    "another Snakemake is at work in this folder; wait until it ends, or stop it"
                ) from None
            return
        for left in ("locks", "incomplete"):
            shutil.rmtree(f".snakemake/{left}", ignore_errors=True)
            os.makedirs(f".snakemake/{left}", exist_ok=True)

    def start(self) -> None:
        """Before the first job: forced stages are computed again."""
        interrupt_once()
        forced = self.workflow.dag_settings
        if forced.forceall or forced.forcetargets or forced.forcerun:
            clear_finished()

    def end(self, failed: bool = False) -> None:
        """After the last job: record what has finished."""
        if failed:
            self.filter.report(LOGS)
        record_or_report(GRAPH)
        if edited := edited_since(GRAPH):
            say(
                f"Code was edited meanwhile ({', '.join(edited)}): each stage ran by the code that it started with.",
                err=True,
            )
        if not failed:
            print_summary(LOGS / "report.log", self.filter.since)

    @property
    def targets(self) -> list[str]:
        """All outputs."""
        return list(self.makers)

    @property
    def gates(self) -> list[str]:
        """What every other stage waits for."""
        return [path for path, job in self.makers.items() if job.is_gate]


class Job:
    """A stage instance as a rule."""

    def __init__(self, engine: Engine, stage: "Stage") -> None:
        self.engine, self.stage, self.meta = engine, stage, stage.meta or {}
        self.name = re.sub(r"\W+", "_", stage.name)
        self.is_gate = bool(self.meta.get("gate", False))
        self.on_gpu = engine.has_gpu and "gpu" in self.meta

    @cached_property
    def paths(self) -> list[str]:
        """Dependencies: a folder of outputs as the outputs in it, a file of one as that output."""
        return list(self._paths())

    def _paths(self) -> Iterator[str]:
        makers = self.engine.makers
        for path in (dep.def_path for dep in self.stage.deps if not hasattr(dep, "params")):
            inside = [out for out in makers if out == path or out.startswith(f"{path}/") or path.startswith(f"{out}/")]
            # Gates are left out: nothing goes stale with them.
            if not any(makers[out].is_gate for out in inside):
                yield from inside or [path]

    @property
    def inputs(self) -> Iterator[Any]:
        """Dependencies such that the stage runs if it is stale, after the gates and the stale stages it waits for."""
        engine, is_stale = self.engine, self.stage.name in self.engine.stale
        if not self.is_gate:
            # Where all that links two jobs is ancient, Snakemake does not ask whether the second has other reasons.
            yield from engine.gates if is_stale else map(ancient, engine.gates)
        for path in self.paths:
            maker = engine.makers.get(path)
            yield path if maker is not None and maker.stage.name in engine.stale else ancient(path)
        if is_stale:
            yield str(TO_RUN)

    @property
    def outputs(self) -> Iterator[Any]:
        """Outputs; pages and pictures go into `snakemake --report`."""
        for path in (out.def_path for out in self.stage.outs):
            place = path if Path(path).suffix else directory(path)
            if Path(path).name == "pictures":
                shown = {"patterns": ["{name}.png"], "labels": {"picture": "{name}"}, "caption": CAPTION}
                place = report(place, category="Pictures", **shown)
            yield report(place, category="Page", labels={"page": path}) if Path(path).name == "report.html" else place

    @property
    def command(self) -> str:
        """The stage's command, with the GPUs that it may take in its environment where it wants any."""
        lent = f"env {LENT}={','.join(self.engine.gpus)} " if self.engine.gpus and self.on_gpu else ""
        return f"{lent}{self.stage.cmd}"

    @property
    def resources(self) -> dict[str, Any]:
        """GPUs, minutes, and megabytes of host memory: twice as much at each retry, which resumes."""
        engine = self.engine
        first = self.meta.get("mem_mb", MEMORY_MB["gpu" if self.on_gpu else "cpu"])
        memory: Callable[[Any, int], int] = lambda wildcards, attempt: first * engine.processes * 2 ** (attempt - 1)  # noqa: E731
        return {
            "gpu": self.meta["gpu"] * engine.processes if self.on_gpu and engine.on_cluster else 0,
            "local_gpu": engine.processes if engine.gpus and self.on_gpu else 0,
            "mem_mb": memory,
            "runtime": self.meta.get("runtime", 60),
        }
