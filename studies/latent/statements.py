"""What can be told of latents in one run, in sentences with their figures."""

from studies.latent.findings import LatentFindings
from unequal.measures.loss_profile import LossProfile
from unequal.report.comparisons import Comparison, fid_differences, in_order, pairings
from unequal.report.formatting import plus_minus
from unequal.report.pipeline_page import heading_and_lead
from unequal.report.pipeline_statements import Readiness, final_slope, spread_of_losses
from unequal.report.statements import Section, Statement


def sections(found: LatentFindings) -> list[Section]:
    """Where base and autoencoder stand, what each method came to, what the losses of latents show."""
    base = readiness(found)
    told = [one.statement() for one in in_order(comparisons(found), base.ready)]
    losses = [spread_of_losses(LossProfile.of(found.losses["base"]["train"]))]
    return [
        Section("Is the base ready, and the autoencoder good enough?", "", [*base.statements(), decoding(found)]),
        Section(*heading_and_lead(base.ready, 1), told),
        Section("How unequal are timesteps?", "± is the standard error over draws of latents and noise.", losses),
    ]


def readiness(found: LatentFindings) -> Readiness:
    """Where the base stands between noise and real images, and whether its loss still falls."""
    noise, real = (found.references[f"{kind}_against_real"]["fid"] for kind in ("noise", "real"))
    return Readiness(found.variants["base"].fid, noise, real, final_slope(found.base_training))


def comparisons(found: LatentFindings) -> list[Comparison]:
    """Methods beside their controls, by FID."""
    pairs = pairings(found.variants, ())
    fids = fid_differences(found.seed_fids, [(one.method, one.control) for one in pairs])
    return [
        Comparison(found.variants[one.method], found.variants[one.control], fid, {}, one.budget)
        for one, fid in zip(pairs, fids, strict=True)
    ]


def decoding(found: LatentFindings) -> Statement:
    """What the autoencoder takes from real images, beside what diffusion in its latents misses."""
    base, decoded = found.variants["base"], float(found.references["reconstructions"]["fid"])
    text = (
        f"Real training images that were encoded and decoded again have a FID of {plus_minus(decoded, None)}, "
        f"the base's samples one of {plus_minus(base.fid, base.fid_sd)}."
    )
    return Statement("decoding", text, {"decoded_fid": decoded, "base_fid": base.fid})
