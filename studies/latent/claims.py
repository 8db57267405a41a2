"""Verdicts on what can be told of latents."""

from studies.latent.findings import LatentFindings
from unequal.measures.loss_profile import LossProfile
from unequal.reporting.claims import fid_rule, fid_verdicts, losses_differ
from unequal.reporting.tables import GroupLimit, plus_minus
from unequal.reporting.verdicts import Evidence, Verdict, decide


def verdicts(found: LatentFindings) -> list[Verdict]:
    """Verdicts on what can be told of latents."""
    base = LossProfile.of(found.losses["base"]["train"])
    limits = GroupLimit.all_of(found.groups, found.group_shares)
    return [
        losses_differ(base.mean.tolist(), base.stderr.tolist()),
        decoding_costs_less(found),
        *fid_verdicts(found.variants, limits),
    ]


def decoding_costs_less(found: LatentFindings) -> Verdict:
    """Whether the autoencoder is good enough for the diffusion that works in its latents."""
    base, decoded = found.variants["base"], found.references["reconstructions"]
    evidence = Evidence(base.fid - decoded["fid"], base.fid_sd)
    return Verdict(
        "decoding_costs_less",
        None,
        "What the autoencoder takes from real images weighs less than what diffusion in its latents misses",
        decide([evidence]),
        {"fid_base": base.fid, "fid_reconstructions": decoded["fid"]},
        f"FID {plus_minus(base.fid, base.fid_sd)} (base, decoded) against {plus_minus(decoded['fid'], None)} (real "
        "training images, decoded again)",
        fid_rule(base.seeds),
    )
