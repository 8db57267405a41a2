"""Check whether data have the images and labels that the settings ask for, as far as that is known beforehand."""

from unequal.data.prepared import check_classes
from unequal.data.sources import open_source
from unequal.data.split import training_images
from unequal.errors import UserError, UserErrors
from unequal.settings.core import Core
from unequal.settings.params import Scored


def check_images(params: Core) -> None:
    """Raise UserErrors where data have too few images for the held-out share, or for FID."""
    count = len(open_source(params.data))
    problems = list[str]()
    try:
        trained = training_images(count, params.data.holdout)
    except UserError as error:
        raise UserErrors([str(error)]) from None
    if not isinstance(params, Scored):
        return
    scored, features = params.evaluation, params.extractor.features
    real = trained if scored.against == "train" else count - trained
    what = f"{real} real images, of {count} in {'data.path' if params.data.path else 'the data'}"
    half = real // 2 if scored.against == "train" else real
    if half < features and not scored.allow_singular:
        problems.append(
            f"evaluation.allow_singular: false; half of {what} are fewer than extractor.features {features}: FID's "
            "covariance is singular; use more images or fewer features, or set it to true"
        )
    for key, most in (("kid_subset", real), ("neighbourhood", real - 1)):
        if (value := getattr(scored, key)) > most:
            problems.append(f"evaluation.{key}: {value}; allowed for {what}: at most {most}")
    if problems:
        raise UserErrors(problems)


def check_labels(params: Core) -> None:
    """Raise UserError where a network or the extractor's classifier needs labels that the data do not have."""
    source = open_source(params.data)
    classes = None if source.classes is None else len(source.classes)
    why = f" ({source.why_unlabelled})" if source.why_unlabelled and classes is None else ""
    try:
        check_classes(params.network.condition, classes)
    except UserError as error:
        raise UserError(f"{error}{why}") from None
    if not isinstance(params, Scored) or params.extractor.kind != "classifier":
        return
    allowed = "allowed: rotations, inception, dinov2, or data with labels of two classes or more"
    if classes is None:
        raise UserError(
            f"extractor.kind: 'classifier' needs labelled data, and data.path: {params.data.path} has no "
            f"labels{why}; {allowed}"
        )
    if classes == 1:
        raise UserError(
            f"extractor.kind: 'classifier' learns nothing from data.path: {params.data.path}, which has one "
            f"class; {allowed}"
        )
