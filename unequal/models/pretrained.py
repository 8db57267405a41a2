"""Check whether a trained network in a folder has the schedule of the settings, before anything runs."""

from pathlib import Path

from unequal.models.spec import ModelSpec, Space
from unequal.runtime.outside import located
from unequal.settings.core import Core


def check_pretrained(params: Core) -> None:
    """Raise UserError where the scheduler next to `network.pretrained` contradicts the settings.

    One on the Hub is looked at when the base is taken up.
    """
    network = params.network
    if network.pretrained is None or "base" not in params.recipes:
        return
    if not isinstance(located(network.pretrained, "network.pretrained"), Path):
        return
    from unequal.models.backbones.schedulers import check_beside  # its imports take seconds

    channels, size = params.seen
    prediction = params.recipes["base"].prediction
    check_beside(network, ModelSpec.of(network, params.schedule, prediction, Space(channels=channels, size=size)))
