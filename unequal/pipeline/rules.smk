from unequal.pipeline.snakemake import LOGS, Engine

ENGINE = Engine(workflow, config)


onstart:
    ENGINE.start()


onsuccess:
    ENGINE.end()


onerror:
    ENGINE.end(failed=True)


rule all:
    input:
        ENGINE.targets,


# lint: the rules name neither container nor conda environment, since pyproject.toml pins the environment of all.
for job in ENGINE.jobs:

    rule:
        name:
            job.name
        input:
            list(job.inputs),
        output:
            list(job.outputs),
        params:
            # Shell commands are filled in when they run, long after this loop: they must not name `job`.
            command=job.command,
        log:
            f"{LOGS}/{job.name}.log",
        benchmark:
            f"{LOGS}/{job.name}.benchmark.tsv"
        threads: ENGINE.threads
        resources:
            **job.resources,
        shell:
            # `exec`: a stopped job ends its shell at once, while the stage still saves its state.
            "exec {params.command} > {log} 2>&1"
