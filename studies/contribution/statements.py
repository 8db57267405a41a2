"""What was found of contributions, in sentences with their figures: first of all whether there is anything to find."""

from collections.abc import Sequence

import numpy as np

from studies.contribution.findings import SYMBOLS, ModelRuns, by_prediction
from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.statements import Section, Statement

#: A coefficient of x0 that is no longer small, and the last timestep at which the paper sees one.
SMALL, LAST_LARGE = 0.1, 15


def sections(trainings: Sequence[ModelRuns], schedule: NoiseSchedule) -> list[Section]:
    """All that is said, in the order of the page."""
    ahead = [beyond_interpolation(name, found) for name, found in by_prediction(trainings).items()]
    return [
        Section("Do the networks enlarge better than interpolation?", HEADROOM, ahead),
        Section("When does x0 matter?", "", [coefficient(schedule)]),
    ]


HEADROOM = (
    "How timesteps share in a picture that bilinear interpolation surpasses tells little; what the tables below say of "
    "such a network is no finding."
)


def beyond_interpolation(prediction: str, trainings: Sequence[ModelRuns]) -> Statement:
    """By how much the networks of a prediction enlarge better than interpolation does, or worse."""
    own, bilinear = (
        float(np.mean([getattr(one, run).psnr for one in trainings])) for run in ("unreplaced", "low_resolution")
    )
    text = (
        f"Networks that predict {SYMBOLS[prediction]} come to {own:.1f} dB, bilinear interpolation to {bilinear:.1f} "
        f"dB: {own - bilinear:+.1f} dB.".replace("-", "−")
    )
    return Statement(f"ahead_{prediction}", text, {"psnr": own, "bilinear_psnr": bilinear})


def coefficient(schedule: NoiseSchedule) -> Statement:
    """How long the posterior's mean takes a notable share of x0 (paper 1, Fig. 3b)."""
    last = int((posterior(schedule).x0 >= SMALL).nonzero().max()) + 1
    text = (
        f"The coefficient of x0 in the posterior's mean is {SMALL:g} or more up to timestep {last} of "
        f"{schedule.timesteps} (schedule {schedule.name}, counted from 1); the paper sees it up to {LAST_LARGE}."
    )
    return Statement("coefficient", text, {"last_above_a_tenth": last})
