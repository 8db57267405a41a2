"""The graph of a dvc.yaml as Snakemake rules: one rule a stage instance, made from DVC's resolved index.

`snakemake --cores 2` runs independent stages side by side. dvc.lock says which stages are stale, as for `dvc repro`, and
takes up what has finished: neither engine has anything left to do after the other.
`--directory studies/<name>` runs a study's graph.
"""

import atexit
import os
import re
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout
from snakemake.logging import logger

from unequal.code import ROOT
from unequal.errors import UserError
from unequal.pipeline.attempt import ENGINE, delete_of_folder
from unequal.pipeline.devices import LENT, machine_gpus
from unequal.pipeline.engines import StopFilter, interrupt_once, print_recommendation, print_summary
from unequal.pipeline.fingerprint import write_fingerprints
from unequal.pipeline.folders import update_graph
from unequal.pipeline.recording import record_finished, record_or_report, stages_of, stale_stages
from unequal.pipeline.sources import write_sources
from unequal.report.captions import CAPTIONS, FIRST_SCREEN
from unequal.settings.training import Runtime
from unequal.settings.strict import PARAMS, read_yaml

if unknown := sorted(config.keys() - {"cluster", "gpu"}):
    raise WorkflowError(f"--config {unknown[0]}: unknown; allowed: cluster, gpu; all settings stand in {PARAMS}")

# The profile of a cluster sets it, and must name a partition.
ON_CLUSTER = config.get("cluster") is not None
if config.get("cluster") == "slurm" and "slurm_partition" not in workflow.resource_settings.default_resources:
    raise WorkflowError("profile: default-resources: slurm_partition: missing; `sinfo` lists the partitions")

GRAPH = Path("dvc.yaml")
# The settings are checked, and DVC's stage `code` is done here: a rule `code` would make all later rules run again. Jobs
# skip both: their code must not change under them, and the imports of the checks take seconds.
if workflow.is_main_process:
    from unequal.pipeline.params_files import check_params, read_params

    if not workflow.output_settings.dryrun:
        print(f"Progress of each stage, a line every 30 s, in {Path('logs').absolute()}/*.log", file=sys.stderr)
    try:
        try:
            read_params()
        except UserError:
            check_params()  # images and weights too: all that is wrong in one answer
            raise
        update_graph()
        write_fingerprints(GRAPH)
        write_sources(GRAPH)
        record_finished(GRAPH)  # what a killed engine has left
    except UserError as error:
        raise WorkflowError(str(error)) from None

# The stages of the dvc.yaml in the working directory: the pipeline's, or a study's.
STAGES = stages_of(GRAPH)

# Jobs inherit it, on a cluster too: their outputs stay stored until this Snakemake has recorded them.
os.environ.setdefault(ENGINE, f"snakemake-{uuid4()}")
# Commands of studies put their checkout before it, in a shell that refuses unset variables.
os.environ.setdefault("PYTHONPATH", str(ROOT))

# Snakemake's locks and its marks of unfinished jobs survive its kill, and would stop the next one or run jobs again. The
# system frees this lock instead; outputs appear whole, and dvc.lock decides what is stale.
if workflow.is_main_process:
    ALONE = FileLock(".snakemake/alone.lock")
    try:
        ALONE.acquire(timeout=0)
        for left in ("locks", "incomplete"):
            shutil.rmtree(f".snakemake/{left}", ignore_errors=True)
            os.makedirs(f".snakemake/{left}", exist_ok=True)
    except Timeout:
        # Snakemake would call the other one's files incomplete, and advise to delete them.
        if not workflow.output_settings.dryrun:
            raise WorkflowError("another Snakemake is at work in this folder; wait until it ends, or stop it") from None


STOP = StopFilter()
if workflow.is_main_process:
    logger.addFilter(STOP)


onstart:
    interrupt_once()
    # Forced stages are computed again.
    forced = workflow.dag_settings
    if forced.forceall or forced.forcetargets or forced.forcerun:
        delete_of_folder()


onsuccess:
    record_or_report(GRAPH)
    print_summary(Path("logs/report.log"), STOP.since)


onerror:
    STOP.report(Path("logs"))
    record_or_report(GRAPH)


OUTPUTS = {out.def_path: stage for stage in STAGES for out in stage.outs}
RUNTIME = read_yaml(PARAMS)["runtime"]
THREADS, PROCESSES = RUNTIME.get("threads", Runtime.model_fields["threads"].default), RUNTIME.get("processes") or 1
# A cluster hands GPUs out; on one machine, each stage takes as many as it has processes, and several may share one.
HAS_GPU = str(config.get("gpu", shutil.which("nvidia-smi") is not None)).lower() == "true"
GPUS = machine_gpus() if HAS_GPU and not ON_CLUSTER and RUNTIME["device"] != "cpu" else []
GPUS *= RUNTIME.get("stages_per_gpu", Runtime.model_fields["stages_per_gpu"].default)
if "local_gpu" not in workflow.resource_settings.resources:
    workflow.register_resource("local_gpu", len(GPUS))
# The folder of a page's pictures, and how Snakemake's report captions each.
PICTURES, CAPTION = "pictures", str(ROOT / "unequal/report/caption.rst")
config["captions"] = FIRST_SCREEN | CAPTIONS
# Megabytes at the first attempt: libraries (with CUDA's), Snakemake twice in a job, and room for networks and images.
MEMORY_MB = {"cpu": 4000, "gpu": 8000}


def is_gate(stage):
    return (stage.meta or {}).get("gate", False)


def rule_name(stage):
    return re.sub(r"\W+", "_", stage.name)


def inputs(stage):
    """List a stage's dependencies: a folder of outputs as the outputs in it, a file of one as that output."""
    for path in (dep.def_path for dep in stage.deps if not hasattr(dep, "params")):
        inside = [out for out in OUTPUTS if out == path or out.startswith(f"{path}/") or path.startswith(f"{out}/")]
        # Gates are left out: nothing goes stale with them.
        if not any(is_gate(OUTPUTS[out]) for out in inside):
            yield from inside or [path]


INPUTS = {stage.name: list(inputs(stage)) for stage in STAGES}


def outputs(stage):
    """List a stage's outputs; pages and pictures go into `snakemake --report`."""
    for path in (out.def_path for out in stage.outs):
        place = path if Path(path).suffix else directory(path)
        if Path(path).name == PICTURES:
            shown = {"patterns": ["{name}.png"], "labels": {"picture": "{name}"}, "caption": CAPTION}
            place = report(place, category="Pictures", **shown)
        yield report(place, category="Page", labels={"page": path}) if Path(path).name == "report.html" else place


def memory(stage):
    """Megabytes of host memory: twice as much at each retry, which resumes from the last saved state."""
    needs = stage.meta or {}
    first = needs.get("mem_mb", MEMORY_MB["gpu" if wants_gpu(stage) else "cpu"])
    return lambda wildcards, attempt: first * PROCESSES * 2 ** (attempt - 1)


# Stale stages read this file, which is newer than any output and never the same. The times of other files do not count.
STALE, TO_RUN = set(), Path(".snakemake/stale")
if workflow.is_main_process:
    STALE = stale_stages(STAGES, lambda stage: INPUTS[stage.name])
    TO_RUN.write_text(str(uuid4()))
    if not STALE and not workflow.output_settings.dryrun:
        atexit.register(print_recommendation, Path("results/take.json"))  # the last line


def wants_gpu(stage):
    return HAS_GPU and "gpu" in (stage.meta or {})


def command(stage):
    """The stage's command, with the GPUs that it may take in its environment where it wants any."""
    return f"env {LENT}={','.join(GPUS)} {stage.cmd}" if GPUS and wants_gpu(stage) else stage.cmd


# What every other stage waits for.
GATES = [out.def_path for stage in STAGES if is_gate(stage) for out in stage.outs]


def reasons(stage):
    """List a stage's inputs such that it runs if it is stale, after the gates and the stale stages that it waits for."""
    if not is_gate(stage):
        # Where all that links two jobs is ancient, Snakemake does not ask whether the second has reasons of its own.
        yield from GATES if stage.name in STALE else map(ancient, GATES)
    for path in INPUTS[stage.name]:
        yield path if path in OUTPUTS and OUTPUTS[path].name in STALE else ancient(path)
    if stage.name in STALE:
        yield str(TO_RUN)


rule all:
    input:
        [out.def_path for stage in STAGES for out in stage.outs],


# lint: the rules name neither container nor conda environment, since pyproject.toml pins the environment of all.
for stage in STAGES:

    rule:
        name:
            rule_name(stage)
        input:
            list(reasons(stage)),
        output:
            list(outputs(stage)),
        params:
            # Shell commands are filled in when they run, long after this loop: they must not name `stage`.
            command=command(stage),
        log:
            f"logs/{rule_name(stage)}.log",
        benchmark:
            f"logs/{rule_name(stage)}.benchmark.tsv"
        threads: THREADS
        resources:
            gpu=stage.meta["gpu"] * PROCESSES if wants_gpu(stage) and ON_CLUSTER else 0,
            local_gpu=PROCESSES if GPUS and wants_gpu(stage) else 0,
            mem_mb=memory(stage),
            runtime=(stage.meta or {}).get("runtime", 60),
        shell:
            # `exec`: a stopped job ends its shell at once, while the stage still saves its state.
            "exec {params.command} > {log} 2>&1"
