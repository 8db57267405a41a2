"""The graph of dvc.yaml as Snakemake rules: `snakemake --cores 2` runs independent stages side by side."""

from unequal.pipeline.snakemake import RULES


include: RULES, overwrite_default_target=True
