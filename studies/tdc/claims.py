"""The claims of paper 3, question by question, and ours; all about FID are decided over training seeds, in pairs."""

from collections.abc import Callable, Sequence

import numpy as np

from studies.tdc.findings import LONGER, TDC, UNPRUNED, Found, PlanOutcome
from studies.tdc.tables import rounds_of, starts_of
from unequal.reporting.tables import mean_and_sd
from unequal.reporting.verdicts import SEVERAL, Evidence, Verdict, decide, needed, paired, signed, tally

SEEDS = "mean over training seeds that both share, against its 95 % interval (Student's t)"
ONE_BASE = "mean over training seeds of the plan, against its 95 % interval (Student's t); the base is one training"
#: What the paper reports: FIDs of 4 to 20 groups lie within so much of the best one (3.52 … 3.62).
GROUPS_SPREAD = 0.03
#: FID of the pruned over that of the whole model, pruning alone (Table V: 4.2 against 4.08).
ALONE = 1.03


def verdicts(found: Found) -> list[Verdict]:
    """Verdicts on the claims of a question, the paper's first."""
    return CLAIMS[found.question](found)


def overall(found: Found) -> list[Verdict]:
    """Table I and section III-C."""
    return [
        better_than_base(found, UNPRUNED, "unpruned_beats_base", "TDC without pruning beats the original training"),
        better_than_base(found, TDC, "tdc_beats_base", "TDC beats the original training, at fewer FLOPs a step"),
        better(
            found,
            UNPRUNED,
            LONGER,
            "unpruned_beats_longer",
            3,
            "TDC without pruning beats the base trained on for as many images",
        ),
        better(found, TDC, LONGER, "tdc_beats_longer", None, "TDC beats the base trained on for as many images"),
        better(
            found,
            TDC,
            "single_stage",
            "two_stages_beat_one",
            3,
            "Two stages beat one: the same networks from scratch, for as much compute",
        ),
        search_is_cheap(found),
    ]


def schedules(found: Found) -> list[Verdict]:
    """Table II, and groups by the measured loss."""
    rivals = [one for one in ("constant", "uniform_increasing", "uniform_decreasing") if found.has(one)]
    claims = [
        better(found, TDC, one, f"snr_beats_{one}", 3, f"Limits by SNR beat the schedule '{found[one].label}'")
        for one in rivals
    ]
    if found.has("excess_loss"):
        text = "Groups of equal excess loss, limits by its mean, beat groups by SNR"
        claims.append(better(found, "excess_loss", TDC, "excess_beats_snr", None, text))
    return claims


def groups(found: Found) -> list[Verdict]:
    """Table III."""
    counted = sorted([found[UNPRUNED], *found.own], key=lambda one: one.groups)
    best = min(counted, key=lambda one: one.fid)
    others = [one for one in counted if one is not best]
    near = [Evidence(GROUPS_SPREAD * best.fid - gap.difference, gap.spread) for gap in gaps(found, best, others)]
    shown = ", ".join(f"{one.groups}: {mean_and_sd(one.fids)}" for one in counted)
    gains = [found.gain(one.name, LONGER) for one in counted]
    return [
        Verdict(
            "count_matters_little",
            3,
            f"FIDs of different numbers of groups lie within {GROUPS_SPREAD:.0%} of the best one".replace("%", " %"),
            decide(near),
            tally(near) | {f"fid_{one.groups}": one.fid for one in counted},
            f"FID by number of groups, for as many images in all: {shown}",
            f"allowed share of the best FID minus the distance from it, {SEEDS}; {SEVERAL}",
        ),
        Verdict(
            "any_count_beats_none",
            3,
            "With any number of groups, experts beat the base trained on for as many images",
            decide(gains),
            tally(gains) | {"fid_longer": found[LONGER].fid},
            f"FID without groups {mean_and_sd(found[LONGER].fids)}; by number of groups {shown}",
            f"difference of FID, {SEEDS}; {SEVERAL}",
        ),
    ]


def gaps(found: Found, best: PlanOutcome, others: Sequence[PlanOutcome]) -> list[Evidence]:
    """By how much the FIDs of others lie above the best one's."""
    return [found.gain(best.name, one.name) for one in others]


def ratios(found: Found) -> list[Verdict]:
    """Section III-E, Fig. 6."""
    sizes = sorted([found[TDC], *found.own], key=lambda one: one.min_ratio)
    gains = [found.gain_on_base(one.name) for one in sizes]
    small, *_, large = sizes
    shown = ", ".join(
        f"k = {one.min_ratio:g} ({found.share(one):.2f} of the FLOPs): {mean_and_sd(one.fids)}" for one in sizes
    )
    figures = {f"fid_{one.min_ratio:g}": one.fid for one in sizes}
    return [
        Verdict(
            "every_k_beats_base",
            3,
            "TDC beats the base at every k",
            decide(gains),
            tally(gains) | figures,
            f"base {found.base_fid:.2f}; {shown}",
            f"difference of FID, {ONE_BASE}; {SEVERAL}",
        ),
        judged(
            found.gain(large.name, small.name),
            "larger_k_is_better",
            None,
            "The largest k ends with a lower FID than the smallest",
            f"k = {large.min_ratio:g}: {mean_and_sd(large.fids)}, k = {small.min_ratio:g}: {mean_and_sd(small.fids)}",
            f"difference of FID, {SEEDS}",
        ),
    ]


def methods(found: Found) -> list[Verdict]:
    """Table VI."""
    rivals = [one.name.split("/")[1] for one in found.own]
    gains = [found.gain_on_base(one.name) for one in [found[TDC], *found.own]]
    shown = ", ".join(f"{one.label} {mean_and_sd(one.fids)}" for one in found.own)
    return [
        *(
            better(found, TDC, one, f"proxy_beats_{one}", 3, f"Within TDC, the proxy's pruning beats {name}")
            for one, name in ((rival, found[rival].label) for rival in rivals)
        ),
        Verdict(
            "every_method_beats_base",
            3,
            "TDC beats the base whatever prunes its experts",
            decide(gains),
            tally(gains),
            f"base {found.base_fid:.2f}; proxy {mean_and_sd(found[TDC].fids)}, {shown}",
            f"difference of FID, {ONE_BASE}; {SEVERAL}",
        ),
    ]


def alone(found: Found) -> list[Verdict]:
    """Table V and section III-D."""
    rivals = [one for one in ("random", "magnitude", "taylor", "diff_pruning") if found.has(one)]
    whole = [found.base_fid * ALONE - fid for fid in found["proxy"].fids]
    claims = [
        better(found, "proxy", one, f"proxy_beats_{one}", 3, f"The proxy's pruning beats {found[one].label}")
        for one in rivals
    ]
    claims.append(
        judged(
            paired(whole),
            "pruned_keeps_fid",
            3,
            f"Pruned by the proxy and trained on, the model keeps its FID to {ALONE - 1:.0%}".replace("%", " %"),
            f"proxy {mean_and_sd(found['proxy'].fids)}, base {found.base_fid:.2f}",
            f"{ALONE:g} × FID of the base minus that of the pruned model, {ONE_BASE}",
        )
    )
    if found.has("scratch_long"):
        text = "Pruning beats training the same network from scratch, for all of the base's images"
        claims.append(better(found, "proxy", "scratch_long", "pruning_beats_scratch", 3, text))
    return [*claims, rounds_improve(found), search_beats_start(found)]


def rounds_improve(found: Found) -> Verdict:
    """Fig. 5: feedback makes later rounds better."""
    losses = rounds_of(found["proxy"]).mean(axis=2)
    evidence = paired((losses[:, 0] - losses[:, -1]).tolist())
    shown = ", ".join(f"{value:.4g}" for value in losses.mean(axis=0))
    return judged(
        evidence,
        "rounds_improve",
        3,
        "The proxy's last round is better than its first",
        f"mean loss of the candidates, round by round: {shown}",
        "loss of the first round's candidates minus that of the last's, mean over seeds of the proxy, against its 95 % "
        "interval (Student's t)",
    )


def search_beats_start(found: Found) -> Verdict:
    """Whether a search finds more than what it began with."""
    losses, starts = rounds_of(found["proxy"]), starts_of(found["proxy"])
    least = losses.min(axis=(1, 2))
    evidence = paired((starts.min(axis=1) - least).tolist()) if starts.size else Evidence(0.0, None)
    return judged(
        evidence,
        "search_beats_start",
        None,
        "The proxy's rounds find a smaller loss than the importance methods they start from",
        f"least loss of the rounds {mean_and_sd(least.tolist())}"
        + (f", of the start {mean_and_sd(starts.min(axis=1).tolist())}" if starts.size else ""),
        "least loss of the start minus that of the rounds, mean over seeds of the proxy, against its 95 % interval "
        "(Student's t)",
    )


def budgets(found: Found) -> list[Verdict]:
    """Fig. 3: FID over images in all."""
    sizes = [("half", "half"), (None, "all"), ("double", "twice")]

    def at(shared: str, size: str | None) -> str:
        return shared if size is None else f"{shared.split('/')[1]}_{size}"

    gains = {
        name: (found.gain(at(UNPRUNED, size), at(LONGER, size)), found.gain(at(TDC, size), at(LONGER, size)))
        for size, name in sizes
        if size is None or found.has(at(LONGER, size))
    }
    early = better(
        found,
        at(UNPRUNED, "half"),
        at(LONGER, "double"),
        "half_beats_double",
        3,
        "TDC without pruning reaches with half the budget of stage 2 what the base needs twice that budget for",
    )
    return [
        *(
            several(
                list({name: both[place] for name, both in gains.items()}.items()),
                f"{key}_costs_less",
                3,
                f"{text} beats the base trained on at every number of images",
            )
            for place, (key, text) in enumerate((("unpruned", "TDC without pruning"), ("tdc", "TDC")))
        ),
        early,
    ]


def several(gains: Sequence[tuple[str, Evidence]], key: str, paper: int | None, claim: str) -> Verdict:
    """A claim about several differences of FID, each at a budget of stage 2."""
    evidence = [one for _, one in gains]
    shown = ", ".join(f"{name} of it {signed(-one.difference)}" for name, one in gains)
    return Verdict(
        key,
        paper,
        claim,
        decide(evidence),
        tally(evidence) | {f"difference_{name}": -one.difference for name, one in gains},
        f"difference of FID by the budget of stage 2: {shown}",
        f"difference of FID at each budget, {SEEDS}; {SEVERAL}",
    )


def better(found: Found, ours: str, theirs: str, key: str, paper: int | None, claim: str) -> Verdict:
    """Whether one plan's FID lies below another's."""
    shown = ", ".join(f"{found[one].label} {mean_and_sd(found[one].fids)}" for one in (ours, theirs))
    return judged(found.gain(ours, theirs), key, paper, claim, f"FID {shown}", f"difference of FID, {SEEDS}")


def better_than_base(found: Found, ours: str, key: str, claim: str) -> Verdict:
    """Whether a plan's FID lies below the base's."""
    outcome = found[ours]
    shown = (
        f"FID {mean_and_sd(outcome.fids)} at {found.share(outcome):.2f} of the base's FLOPs, base {found.base_fid:.2f}"
    )
    return judged(found.gain_on_base(ours), key, 3, claim, shown, f"difference of FID, {ONE_BASE}")


def judged(evidence: Evidence, key: str, paper: int | None, claim: str, shown: str, rule: str) -> Verdict:
    """A claim that one difference decides."""
    figures = {"difference": evidence.difference}
    summary = f"{shown} (difference {signed(evidence.difference)}{needed(evidence)})"
    return Verdict(key, paper, claim, decide([evidence]), figures, summary, rule)


def search_is_cheap(found: Found) -> Verdict:
    """Table IV: deciding what to prune takes next to nothing of the whole."""
    shares = [one["pruning_seconds"] / (one["pruning_seconds"] + one["training_seconds"]) for one in found[TDC].experts]
    percent = (100 * np.array(shares)).tolist()
    return judged(
        paired([5 - one for one in percent]),
        "deciding_is_cheap",
        3,
        "Deciding what to prune takes less than 5 % of the time of stage 2",
        f"{mean_and_sd(percent)} %",
        "5 % minus the share of the seconds of stage 2, mean over training seeds, against its 95 % interval "
        "(Student's t); the paper's language model took 78 of 342,000 seconds",
    )


#: Study → its claims.
CLAIMS: dict[str, Callable[[Found], list[Verdict]]] = {
    "overall": overall,
    "schedules": schedules,
    "groups": groups,
    "ratios": ratios,
    "methods": methods,
    "alone": alone,
    "budgets": budgets,
}
