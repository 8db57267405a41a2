"""The study of latents as pictures."""

from functools import partial

from studies.latent.findings import LatentFindings
from unequal.report.drawing import picture_grid
from unequal.report.formatting import label
from unequal.report.page import Drawing
from unequal.report.pipeline_page import CAPTIONS
from unequal.report.pipeline_pictures import groups_and_limits, space_profiles

SAMPLES_CAPTION = (
    "Samples",
    "Held-out images; the same encoded and decoded again; samples of every variant, each column from one noise.",
)


def drawings(found: LatentFindings) -> list[Drawing]:
    """All pictures, in the order of the page."""
    spaces = partial(space_profiles, losses=found.losses, floor=found.floor, schedule=found.schedule)
    groups = partial(groups_and_limits, groups=found.groups, shares=found.group_shares)
    grid = partial(picture_grid, rows={label(name): images for name, images in found.samples.items()})
    return [
        Drawing("loss_spaces", (10.5, 4.2), spaces, *CAPTIONS["loss_spaces"]),
        Drawing("groups", (8.4, 5.6), groups, *CAPTIONS["groups"]),
        Drawing("samples", (8.4, 4.6), grid, *SAMPLES_CAPTION),
    ]
