"""The papers' claims that the pipeline's own models can bear out, each as a verdict."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unequal.reporting.tables import Change, GroupLimit, Variant, label, plus_minus, with_prefix
from unequal.reporting.verdicts import (
    HELD,
    NOT_HELD,
    SEVERAL,
    UNDECIDED,
    Evidence,
    Verdict,
    combined,
    decide,
    known_limit,
    needed,
    signed,
    tally,
)

#: "Orders of magnitude": a factor of 100 at least.
ORDERS_OF_MAGNITUDE = 2.0
#: Two budgets are the same where the larger exceeds the smaller by no more than this share.
SAME_BUDGET = 0.02
#: Shares and limits are quotients of the same counts: what they differ by below this is rounding.
ROUNDING = 1e-9
#: What pruning costs at most in paper 3: FID 4.73 with, 4.27 without (latent diffusion on FFHQ).
PRUNING_COST = 0.11


class Budget(NamedTuple):
    """What two variants must have spent alike for a claim to be about them: a field of both and its name."""

    field: str
    name: str

    def difference(self, first: object, second: object) -> float:
        """By what share the larger of two budgets exceeds the smaller."""
        low, high = sorted((getattr(first, self.field), getattr(second, self.field)))
        return float((high - low) / low)


EQUAL_COMPUTE = Budget("training_flops", "training FLOPs")


EQUAL_IMAGES = Budget("images_seen", "images seen")


class FidClaim(NamedTuple):
    """A claim that one variant has a lower FID than another, for the same budget where it names one."""

    key: str
    paper: int | None
    claim: str
    better: str
    worse: str
    budget: Budget | None = None


FID_CLAIMS = (
    FidClaim(
        "stratified_beats_uniform",
        1,
        "Batches that draw evenly from slots of equal loss beat uniform timesteps at equal compute",
        better="stratified",
        worse="longer",
        budget=EQUAL_COMPUTE,
    ),
    FidClaim(
        "mixed_is_worse",
        1,
        "Learning only the best of three predictions is worse than predicting ε alone, for as many images",
        better="base",
        worse="mixed",
        budget=EQUAL_IMAGES,
    ),
    FidClaim(
        "experts_beat_longer",
        3,
        "Experts for groups of timesteps beat one model trained on for the same compute",
        better="experts_unpruned",
        worse="longer",
        budget=EQUAL_COMPUTE,
    ),
    FidClaim(
        "pruned_experts_beat_base",
        3,
        "Pruned experts beat the base, at fewer sampling FLOPs",
        better="experts_pruned",
        worse="base",
    ),
    FidClaim(
        "merged_beats_longer",
        None,
        "Experts merged into one model beat one model trained on for the same compute",
        better="merged",
        worse="longer",
        budget=EQUAL_COMPUTE,
    ),
)


def losses_differ(mean: Sequence[float], stderr: Sequence[float]) -> Verdict:
    """Paper 1: losses of timesteps differ by orders of magnitude.

    Args:
        mean, stderr: [T], the loss of each timestep, positive, and its standard error.
    """
    high, low = max(range(len(mean)), key=mean.__getitem__), min(range(len(mean)), key=mean.__getitem__)
    ratio = mean[high] / mean[low]
    relative = math.hypot(stderr[high] / mean[high], stderr[low] / mean[low])
    evidence = Evidence(math.log10(ratio) - ORDERS_OF_MAGNITUDE, relative / math.log(10))
    return Verdict(
        "losses_differ",
        1,
        "Losses of different timesteps differ by orders of magnitude",
        decide([evidence]),
        {
            "largest": mean[high],
            "largest_at": high,
            "smallest": mean[low],
            "smallest_at": low,
            "ratio": ratio,
            "ratio_stderr": ratio * relative,
        },
        f"largest {mean[high]:.3g} (t = {high}), smallest {mean[low]:.3g} (t = {low}): "
        f"ratio {plus_minus(ratio, ratio * relative)}",
        "log₁₀ of the base's largest over its smallest training loss against 2 (a factor of 100); "
        "decided where 2 standard errors over draws separate them",
    )


def own_slot_improves(found: Sequence[Change]) -> Verdict:
    """Paper 1: training inside one slot lowers the loss there."""
    evidence = [Evidence(-one.change, one.stderr) for one in found if one.own]
    shown = (f"slot {one.slot} {percent(one)}" for one in found if one.own)
    return Verdict(
        "own_slot_improves",
        1,
        "Training inside one slot lowers the loss of that slot",
        decide(evidence),
        tally(evidence) | {f"slot_{one.slot}_percent": 100 * one.change for one in found if one.own},
        ", ".join(shown),
        f"change of the slot's training loss against 2 paired standard errors; {SEVERAL}",
    )


def other_slots_suffer(found: Sequence[Change]) -> Verdict:
    """Paper 1: training inside one slot raises the loss of the others."""
    others = [one for one in found if not one.own]
    evidence = [Evidence(one.change, one.stderr) for one in others]
    counts = tally(evidence)
    least, most = min(others, key=lambda one: one.change), max(others, key=lambda one: one.change)
    return Verdict(
        "other_slots_suffer",
        1,
        "Training inside one slot raises the loss of the other slots",
        decide(evidence),
        counts | {"least_percent": 100 * least.change, "most_percent": 100 * most.change},
        f"{counts['for']} of {len(others)} raised, {counts['against']} lowered, the others within 2 standard errors; "
        f"from {percent(least)} (slot {least.slot} after training {least.finetuned}) "
        f"to {percent(most)} (slot {most.slot} after training {most.finetuned})",
        f"change of a slot's training loss against 2 paired standard errors; {SEVERAL}",
    )


def slots_worsen_fid(base: Variant, slots: Sequence[Variant]) -> Verdict:
    """Paper 1: a model trained on inside one slot samples worse than the base."""
    evidence = [fid_evidence(base, slot) for slot in slots]
    shown = (f"{label(slot.name)} {plus_minus(*one, signed=True)}" for slot, one in zip(slots, evidence, strict=True))
    return Verdict(
        "slots_worsen_fid",
        1,
        "Models trained on inside one slot sample worse than the base",
        decide(evidence),
        tally(evidence) | {f"{slot.name}_difference": slot.fid - base.fid for slot in slots},
        f"FID above the base's {plus_minus(base.fid, base.fid_sd)}: {', '.join(shown)}",
        f"{fid_rule(base.seeds)}; {SEVERAL}",
    )


def fid_claim(claim: FidClaim, better: Variant, worse: Variant) -> Verdict:
    """One variant has a lower FID than another; undecided where a budget that must be the same is not."""
    evidence = fid_evidence(better, worse)
    apart = claim.budget.difference(better, worse) if claim.budget else 0.0
    comparable = apart <= SAME_BUDGET
    training = better.training_flops / worse.training_flops
    sampling = better.sampling_flops / worse.sampling_flops
    return Verdict(
        claim.key,
        claim.paper,
        claim.claim,
        decide([evidence]) if comparable else UNDECIDED,
        {
            f"fid_{better.name}": better.fid,
            f"fid_{worse.name}": worse.fid,
            **known_limit(evidence),
            "training_flops_ratio": training,
            "sampling_flops_ratio": sampling,
            **({f"{claim.budget.field}_differ_percent": 100 * apart} if claim.budget else {}),
        },
        f"{incomparable(claim.budget, apart)}{versus(better, worse)}{needed(evidence)}; "
        f"{label(better.name)} took {training:.2f} × the training and {sampling:.2f} × the sampling FLOPs",
        fid_rule(better.seeds) + budget_rule(claim.budget),
    )


def incomparable(budget: Budget | None, apart: float) -> str:
    """Why two variants cannot be compared; empty where they can."""
    if budget is None or apart <= SAME_BUDGET:
        return ""
    return f"not comparable: {budget.name} differ by {100 * apart:.3g} %; "


def budget_rule(budget: Budget | None) -> str:
    """The condition under which the rule of a claim decides."""
    return f"; decided only where {budget.name} agree within {100 * SAME_BUDGET:g} %" if budget else ""


def pruning_costs_little(pruned: Variant, unpruned: Variant) -> Verdict:
    """Paper 3: pruned experts are nearly as good as unpruned ones."""
    allowed = 1 + PRUNING_COST
    spread = combined(pruned.fid_sd, None if unpruned.fid_sd is None else allowed * unpruned.fid_sd)
    evidence = Evidence(allowed * unpruned.fid - pruned.fid, spread)
    # Of a FID of 0, which constant features give, there is no share.
    rise = {"rise_percent": 100 * (pruned.fid / unpruned.fid - 1)} if unpruned.fid else {}
    change = f", a change of {signed(rise['rise_percent'])} %" if rise else ""
    saved = 1 - pruned.sampling_flops / unpruned.sampling_flops
    return Verdict(
        "pruning_costs_little",
        3,
        f"Pruning the experts costs at most {PRUNING_COST:.0%} of FID, the most that the paper reports".replace(
            "%", " %"
        ),
        decide([evidence]),
        {
            "fid_experts_pruned": pruned.fid,
            "fid_experts_unpruned": unpruned.fid,
            **rise,
            "sampling_flops_saved_percent": 100 * saved,
        },
        f"{versus(pruned, unpruned)}{change}, for {100 * saved:.1f} % fewer sampling FLOPs",
        f"{1 + PRUNING_COST:.2f} × the FID without pruning minus the FID with it, against 2 × their combined standard "
        f"deviation over {seeds(pruned.seeds)}; one training seed",
    )


def limits_are_met(pruned: Variant, base: Variant, groups: Sequence[GroupLimit]) -> Verdict:
    """Paper 3: every pruned expert stays within the limit of its own group."""
    met = [one.share <= one.limit * (1 + ROUNDING) for one in groups]
    ratio = pruned.sampling_flops / base.sampling_flops
    mean_limit = sum(one.timesteps * one.limit for one in groups) / sum(one.timesteps for one in groups)
    figures = {"groups": float(len(met)), "met": float(sum(met))}
    for one in groups:
        figures |= {f"group_{one.group}_share": one.share, f"group_{one.group}_limit": one.limit}
    return Verdict(
        "limits_are_met",
        3,
        "Every pruned expert stays within its group's limit of FLOPs",
        HELD if all(met) else NOT_HELD,
        figures | {"sampling_flops_ratio": ratio, "mean_limit_ratio": mean_limit},
        f"{', '.join(f'group {one.group} takes {one.share:.3f} of {one.limit:.3f}' for one in groups)}; sampling takes "
        f"{with_prefix(pruned.sampling_flops)} FLOPs an image, {ratio:.3f} of the base's; mean limit {mean_limit:.3f}",
        "counted, not estimated: held where each expert's share of the base's FLOPs is at most its group's limit; the "
        "two means decide nothing, as one goes by sampling steps and the other by timesteps",
    )


def fid_verdicts(variants: Mapping[str, Variant], groups: Sequence[GroupLimit]) -> list[Verdict]:
    """Verdicts on all claims about FID and costs whose variants were scored."""
    base = variants["base"]
    pruned, unpruned = variants.get("experts_pruned"), variants.get("experts_unpruned")
    slots = [variant for name, variant in variants.items() if name.startswith("slot_")]
    found = [slots_worsen_fid(base, slots)] if slots else []
    for claim in FID_CLAIMS:
        if claim.better in variants and claim.worse in variants:
            found.append(fid_claim(claim, variants[claim.better], variants[claim.worse]))
    if pruned and unpruned:
        found.append(pruning_costs_little(pruned, unpruned))
    if pruned:
        found.append(limits_are_met(pruned, base, groups))
    return found


def slot_verdicts(found: Sequence[Change]) -> list[Verdict]:
    """Verdicts on what fine-tuning a slot does to the losses of all; none where no slot was profiled again."""
    own = [own_slot_improves(found)] if found else []
    return own + ([other_slots_suffer(found)] if any(not one.own for one in found) else [])


def fid_evidence(better: Variant, worse: Variant) -> Evidence:
    """By how much the FID of `worse` exceeds that of `better`."""
    return Evidence(worse.fid - better.fid, combined(better.fid_sd, worse.fid_sd))


def fid_rule(count: int) -> str:
    """The rule of all comparisons of FID."""
    if count < 2:
        return "difference of FID; one sampling seed shows no spread, so nothing is decided"
    return f"difference of mean FID against 2 × √(sd₁² + sd₂²), sd over {seeds(count)}; one training seed"


def seeds(count: int) -> str:
    """How many sampling seeds."""
    return f"n = {count} sampling seed{'' if count == 1 else 's'}"


def versus(first: Variant, second: Variant) -> str:
    """The FIDs of two variants side by side, and their KIDs."""
    fid = " against ".join(f"{plus_minus(one.fid, one.fid_sd)} ({label(one.name)})" for one in (first, second))
    kid = " against ".join(plus_minus(one.kid, one.kid_sd) for one in (first, second))
    return f"FID {fid}, KID {kid}: difference of FID {signed(first.fid - second.fid)}"


def percent(change: Change) -> str:
    """A change as a percentage with its standard error."""
    return f"{plus_minus(100 * change.change, 100 * change.stderr, signed=True)} %"
