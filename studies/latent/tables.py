"""Scores, the autoencoder and the groups of timesteps as tables."""

import numpy as np

from studies.latent.findings import LatentFindings
from unequal.report.formatting import with_prefix
from unequal.report.page import Table
from unequal.report.pipeline_tables import groups_table, reference_row, scores_and_costs
from unequal.report.results import steps_of_experts


def scores_table(found: LatentFindings) -> Table:
    """Scores and costs, with what decoding alone scores between the two ends of the scale."""
    table = scores_and_costs(list(found.variants.values()), found.references)
    decoded = found.references["reconstructions"]
    row = reference_row("real images, decoded again", decoded)
    note = f"{table.note} Sampling FLOPs are those of the latents; decoding an image takes {decoding(found)} besides."
    return table._replace(references=[row, *table.references], note=note)


def autoencoder_table(found: LatentFindings) -> Table:
    """The autoencoder by itself."""
    facts, pixels = found.autoencoder, int(np.prod(found.images["shape"]))
    shape, values = facts["latent_shape"], int(np.prod(facts["latent_shape"]))
    row = (
        facts["kind"],
        "×".join(map(str, shape)),
        f"{pixels / values:.3g}",
        with_prefix(facts["parameters"]),
        decoding(found),
        f"{facts['psnr_holdout']:.1f} dB",
        f"{facts['scaling_factor']:.4g}",
    )
    columns = ("autoencoder", "latent", "pixels' values a latent value", "parameters", "decoding FLOPs")
    return Table("Autoencoder", (*columns, "PSNR, held-out images", "scale"), [row])


def limits_table(found: LatentFindings) -> Table:
    """The groups of timesteps, and what their pruned models take."""
    return groups_table(found.groups, found.group_shares, steps_of_experts(found.variants))


def decoding(found: LatentFindings) -> str:
    """Multiply–accumulates of decoding an image."""
    return with_prefix(found.autoencoder["decoding_flops_per_image"])
