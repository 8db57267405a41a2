"""Files and models that no stage makes, where settings say they are.

A Hub id is written with a commit, `owner/name@commit`, since branches and tags move.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from unequal.errors import UserError
from unequal.runtime.place import DVC_COPIES


def expanded(text: str, folder: Path = Path()) -> str:
    """The path that a text names, seen from a folder: as it stands, if it is there.

    Else with `~` and variables of the environment replaced, and in one of DVC's copies of a project as in the project.
    """
    if os.path.exists(folder / text):
        return text
    path = os.path.expanduser(os.path.expandvars(text))
    here = Path(os.path.abspath(folder)).parts
    for start in range(len(here) - len(DVC_COPIES)):
        if here[start : start + len(DVC_COPIES)] == DVC_COPIES and not os.path.exists(folder / path):
            original = Path(*here[:start], *here[start + len(DVC_COPIES) + 1 :], path)
            return str(original) if os.path.exists(original) else path
    return path


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
    if os.path.exists(
        path := folder / expanded(text, folder)
    ):  # unlike the path's own method, for names that are too long, too
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
