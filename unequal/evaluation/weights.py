"""Whether the weights of FID's features are at hand, before anything is trained."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

from unequal.errors import UserError
from unequal.settings.core import Core
from unequal.settings.params import Scored

CONNECTION_SECONDS = 3.0


def check_weights(params: Core) -> None:
    """Raise UserError where Inception would have to be downloaded, and its host cannot be reached."""
    if not isinstance(params, Scored) or params.extractor.kind != "inception" or params.extractor.weights is not None:
        return
    import torch

    from unequal.evaluation.inception import URL_INCEPTION_V3

    address = urlsplit(URL_INCEPTION_V3)
    if (Path(torch.hub.get_dir()) / "checkpoints" / Path(address.path).name).exists():
        return
    try:
        socket.create_connection((address.hostname or "", address.port or 443), CONNECTION_SECONDS).close()
    except OSError:
        raise UserError(
            f"extractor.weights: null: Inception's weights are not downloaded, and {address.hostname} cannot "
            "be reached; name a file of them, or another extractor.kind (rotations needs neither weights nor labels)"
        ) from None
