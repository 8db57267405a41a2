"""Check whether the weights of FID's features are at hand, before anything is trained."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

from unequal.errors import UserError
from unequal.runtime.outside import expanded
from unequal.settings.core import Core
from unequal.settings.params import Scored

CONNECTION_SECONDS = 3.0


def check_weights(params: Core) -> None:
    """Raise UserError where Inception's host cannot be reached for a download, or a folder is no DINOv2."""
    if not isinstance(params, Scored):
        return
    kind, weights = params.extractor.kind, params.extractor.weights
    if kind == "dinov2" and weights is not None:
        from unequal.evaluation.dinov2 import check_files

        check_files(Path(expanded(weights)), f"extractor.weights: {weights}")
    if kind != "inception" or weights is not None:
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
