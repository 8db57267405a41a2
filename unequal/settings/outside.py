"""What lies outside the project: files and folders that no stage makes, and models on the Hub.

A Hub id is written with a commit, `owner/name@commit`: what it names is then settled in params.yaml, and no run has to
ask the network. Branches move, and tags can be moved; nothing would tell of it.
"""

import os
import re
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import WithJsonSchema

from unequal.errors import UserError
from unequal.settings.names import fitting

LINE = r"[^\x00-\x1f\x7f]{1,1024}"
FORMAT = "outside"
#: A value of params.yaml that names such a thing; `unequal.pipeline.sources` knows the keys of all of them.
Outside = Annotated[
    str,
    *fitting(LINE, "no path; allowed: one line of at most 1,024 characters"),
    WithJsonSchema({"type": "string", "pattern": f"^{LINE}$", "format": FORMAT}),
]
HUB_ID = re.compile(r"(?P<id>[\w.-]+/[\w.-]+)(@(?P<revision>.+))?")
COMMIT = re.compile(r"[0-9a-f]{40}")


class OnHub(NamedTuple):
    """A model on the Hub, as it is at a revision: a commit."""

    id: str
    revision: str


#: Keys at which a model of the Hub may stand.
OF_MODELS = ("network.pretrained", "autoencoder.source")


def located(text: str, key: str, folder: Path = Path()) -> Path | OnHub:
    """The file or folder that stands at a key, seen from a folder; where there is none, the model on the Hub.

    What is said of it begins with the key, which may have the name of the params file before it.

    Raises:
        UserError: there is no such file, and the text is no Hub id with a commit.
    """
    if os.path.exists(path := folder / text):  # unlike the path's own method, for names that are too long, too
        return path
    if not key.endswith(OF_MODELS):
        raise UserError(f"{key}: {text}: missing; allowed: a file or folder that is there")
    found = HUB_ID.fullmatch(text)
    if found is None:
        raise UserError(f"{key}: {text}: missing; allowed: a file or folder that is there, or owner/name@commit")
    if COMMIT.fullmatch(found["revision"] or "") is None:
        raise UserError(
            f"{key}: {text}: no such folder; on the Hub it needs a commit, {found['id']}@ and its 40 hexadecimal "
            "digits, since what a branch or a tag names may change"
        )
    return OnHub(found["id"], found["revision"])
