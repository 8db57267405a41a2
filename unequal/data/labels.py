"""Whether data have the labels that the settings ask for, as far as that is known before they are prepared."""

from unequal.data.sources import labels_in
from unequal.errors import UserError
from unequal.settings.core import Core
from unequal.settings.params import Scored
from unequal.settings.strict import PARAMS


def check_labels(params: Core) -> None:
    """Raise UserError where a network or the extractor's classifier needs labels that the data do not have."""
    classes, note = labels_in(params.data)
    why = f" ({note})" if note and classes is None else ""
    try:
        params.network.condition.check_labels(classes)
    except UserError as error:
        raise UserError(f"{PARAMS}: {error}{why}") from None
    if not isinstance(params, Scored) or params.extractor.kind != "classifier":
        return
    allowed = "allowed: rotations, inception, dinov2, or data with labels of two classes or more"
    if classes is None:
        raise UserError(
            f"{PARAMS}: extractor.kind: 'classifier' needs labelled data, and data.path: {params.data.path} has no "
            f"labels{why}; {allowed}"
        )
    if classes == 1:
        raise UserError(
            f"{PARAMS}: extractor.kind: 'classifier' learns nothing from data.path: {params.data.path}, which has one "
            f"class; {allowed}"
        )
