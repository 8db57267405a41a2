"""The graph of a dvc.yaml as Snakemake rules: one rule a stage instance, nothing said twice.

`snakemake --cores 2` runs independent stages side by side; `unequal record` then tells DVC what was
made.
A study's graph is run by `snakemake --cores 2 --directory studies/<name>`, or studies/<name>/<data>.
"""

import json
import os
import re
import shutil
from pathlib import Path
from uuid import uuid4

from dvc.repo import Repo
from filelock import FileLock, Timeout

from unequal.errors import UserError
from unequal.pipeline.fingerprint import write_fingerprints
from unequal.pipeline.attempt import ENGINE, delete_of_folder, delete_recorded
from unequal.pipeline.sources import write_sources
from unequal.settings.runtime import Runtime
from unequal.settings.strict import PARAMS, read_yaml

# The profile of a cluster says so, and must know where its jobs go.
ON_CLUSTER = config.get("cluster") is not None
if config.get("cluster") == "slurm" and "slurm_partition" not in workflow.resource_settings.default_resources:
    raise WorkflowError("profile: default-resources: slurm_partition: missing; `sinfo` lists the partitions")

# What the gate and DVC's stage `code` do. No rule does the latter, since all behind a rule runs again when it has run.
# Nor does a job: what it runs must not change under it, and what the checks import takes seconds.
if workflow.is_main_process:
    from unequal.pipeline.params_files import read_params

    try:
        read_params()
        write_fingerprints(Path("dvc.yaml"), Path(workflow.basedir))
        write_sources(Path("dvc.yaml"))
    except UserError as error:
        raise WorkflowError(str(error)) from None

# Jobs inherit it, on a cluster as well: what they finish is kept until this Snakemake has recorded it.
os.environ.setdefault(ENGINE, f"snakemake-{uuid4()}")
# Commands of studies put their checkout before it, in a shell that refuses what is not set.
os.environ.setdefault("PYTHONPATH", str(workflow.basedir))

# Snakemake's own locks outlive it where it is killed, and would stop the next one; this one the system frees.
if workflow.is_main_process:
    ALONE = FileLock(".snakemake/alone.lock")
    try:
        ALONE.acquire(timeout=0)
        shutil.rmtree(".snakemake/locks", ignore_errors=True)
    except Timeout:
        pass  # Snakemake's own say whether the other one is in the way


onstart:
    # Whoever forces stages wants them made anew.
    asked = workflow.dag_settings
    if asked.forceall or asked.forcetargets or asked.forcerun:
        delete_of_folder()


onsuccess:
    delete_recorded(os.environ[ENGINE])


# The stages of the dvc.yaml in the working directory: the pipeline's, or a study's.
STAGES = sorted(Repo().stage.load_all("dvc.yaml"), key=lambda stage: stage.name)
STAGES = [stage for stage in STAGES if stage.name != "code"]
OUTPUTS = {out.def_path: stage for stage in STAGES for out in stage.outs}
RUNTIME = read_yaml(PARAMS)["runtime"]
THREADS, PROCESSES = RUNTIME.get("threads", Runtime.model_fields["threads"].default), RUNTIME.get("processes") or 1
#: Megabytes at the first attempt: libraries (with CUDA's), Snakemake twice in a job, and room for networks and images.
MEMORY_MB = {"cpu": 4000, "gpu": 8000}
# A cluster hands GPUs out; on one machine, stages take turns on what there is.
HAS_GPU = str(config.get("gpu", shutil.which("nvidia-smi") is not None)).lower() == "true"


def rule_name(stage):
    return re.sub(r"\W+", "_", stage.name)


def inputs(stage):
    """A stage's dependencies as files: folders of outputs by what is made in them."""
    for path in (dep.def_path for dep in stage.deps if not hasattr(dep, "params")):
        made = [out for out in OUTPUTS if out == path or out.startswith(f"{path}/")]
        # Gates are left out: they wait for nothing here, since params.yaml has been checked above.
        if not any((OUTPUTS[found].meta or {}).get("gate") for found in made):
            yield from made or [path]


def outputs(stage):
    return [out.def_path if Path(out.def_path).suffix else directory(out.def_path) for out in stage.outs]


def memory(stage):
    """Megabytes of host memory, a process: twice as much at each retry, which resumes from the last saved state."""
    needs = stage.meta or {}
    first = needs.get("mem_mb", MEMORY_MB["gpu" if HAS_GPU and "gpu" in needs else "cpu"])
    return lambda wildcards, attempt: first * PROCESSES * 2 ** (attempt - 1)


def settings(stage):
    """The values of the keys of params.yaml that a stage declares; a change of them makes it stale."""
    declared = [dep for dep in stage.deps if hasattr(dep, "params")]
    return json.dumps([dep.read_params(flatten=False) for dep in declared], sort_keys=True)


rule all:
    input:
        [out.def_path for stage in STAGES for out in stage.outs],


# lint: the rules name neither container nor conda environment: pyproject.toml pins what they all run in.
for stage in STAGES:

    rule:
        name:
            rule_name(stage)
        input:
            list(inputs(stage)),
        output:
            outputs(stage),
        params:
            # Shell commands are filled in when they run, long after this loop: they must not name `stage`.
            command=stage.cmd,
            settings=settings(stage),
        log:
            f"logs/{rule_name(stage)}.log",
        benchmark:
            f"logs/{rule_name(stage)}.benchmark.tsv"
        threads: THREADS
        resources:
            gpu=(stage.meta or {}).get("gpu", 0) if HAS_GPU and ON_CLUSTER else 0,
            local_gpu=(stage.meta or {}).get("gpu", 0) if HAS_GPU and not ON_CLUSTER else 0,
            mem_mb=memory(stage),
            runtime=(stage.meta or {}).get("runtime", 60),
        shell:
            # The stage takes the shell's place: a shell ends at once when a job is told to stop, and the job with it,
            # while the stage saves its state.
            "exec {params.command} > {log} 2>&1"
