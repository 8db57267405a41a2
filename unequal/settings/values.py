"""Types of single values: numbers with bounds, names, and files and models that no stage makes.

A number beyond its bound would end hours later, in an overflow, a full memory, or never. Names become parts of commands
and of paths, so whatever a shell or a file system could take for more is refused. A Hub id is written with a commit,
`owner/name@commit`, since branches and tags move.
"""

import os
import re
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, WithJsonSchema

from unequal.errors import UserError

#: 63 bits, as many as generators are seeded with.
LARGEST_SEED = 2**63 - 1
#: Seed of draws.
Seed = Annotated[int, Field(ge=0, lt=LARGEST_SEED + 1)]
#: Images that a training sees.
Budget = Annotated[int, Field(gt=0, le=10**12)]
#: Images that go through a network at once, or make one step.
BatchSize = Annotated[int, Field(gt=0, le=2**20)]
#: Images or noises behind one figure.
DrawCount = Annotated[int, Field(gt=0, le=10**6)]
#: Channels, features or classes of a layer.
Width = Annotated[int, Field(gt=0, le=2**16)]
#: Layers of a kind.
Depth = Annotated[int, Field(gt=0, le=100)]
#: Shift k of the times of a flow, or of a density, which divides the SNR by k²; beyond, all timesteps would be equal.
Shift = Annotated[float, Field(ge=1e-3, le=1e3)]
#: Steps between two events.
Interval = Annotated[int, Field(gt=0, le=10**9)]


#: Short enough that a path of several stays below the 255 bytes that file systems allow a name.
NAME = "[a-z][a-z0-9_]{0,47}"
#: A number in a name, of which a size could be made.
NUMBER = "[1-9][0-9]{0,8}"


def fitting(pattern: str, refusal: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of strings that match a pattern as a whole, and the refusal of others."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(refusal)
        return text

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": f"^({pattern})$"})


NAMES = "small letters, digits and _, a letter first, at most 48"
#: Name of a recipe, a model or a way of pruning.
Name = Annotated[str, *fitting(NAME, f"no name; allowed: {NAMES}")]


LINE = r"[^\x00-\x1f\x7f]{1,1024}"
FORMAT = "outside"
#: `dvc exp run --temp` and `--queue` check the project out into a folder below this one, without untracked files.
DVC_COPIES = (".dvc", "tmp", "exps")


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


#: A value of params.yaml that names such a thing; `unequal.pipeline.sources` knows the keys of all of them.
Outside = Annotated[
    str,
    *fitting(LINE, "no path; allowed: one line of at most 1,024 characters"),
    AfterValidator(expanded),
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
