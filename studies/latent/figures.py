"""The study of latents as pictures."""

from functools import partial

from studies.latent.findings import LatentFindings
from unequal.report.figures import picture_grid
from unequal.report.groups import CAPTION, groups_and_limits
from unequal.report.page import Drawing
from unequal.report.profiles import SPACES_CAPTION, space_profiles
from unequal.report.tables import label

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
        Drawing("loss_spaces", (10.5, 4.2), spaces, *SPACES_CAPTION),
        Drawing("groups", (8.4, 5.6), groups, *CAPTION),
        Drawing("samples", (8.4, 4.6), grid, *SAMPLES_CAPTION),
    ]
