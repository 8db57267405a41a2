"""Whether data have the labels that the settings ask for, as far as that is known before they are prepared."""

from unequal.data.sources import classes_of
from unequal.errors import UserError
from unequal.settings.core import Core
from unequal.settings.params import Scored
from unequal.settings.strict import PARAMS


def check_labels(params: Core) -> None:
    """Raise UserError where a network or the extractor's classifier needs labels that the data do not have."""
    found = classes_of(params.data)
    try:
        params.network.condition.check_labels(found)
    except UserError as error:
        raise UserError(f"{PARAMS}: {error}") from None
    if found is None and isinstance(params, Scored) and params.extractor.kind == "classifier":
        raise UserError(
            f"{PARAMS}: extractor.kind: 'classifier' needs labelled data, and data.path: {params.data.path} has no "
            "labels; allowed: rotations, inception, dinov2, or data with labels"
        )
