"""Facts of work that is resumed: JSON with a digest, by which a file that was altered since is detected.

Files are written whole. One that cannot be read as it was written counts as damaged, and its work is done again.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from unequal.files import json_or_none, write_json

#: What a file holds.
FACTS, DIGEST = "facts", "digest"


def write_facts(path: Path, facts: Any) -> None:
    """Write facts as JSON with a digest. Raises ValueError for NaN and infinity."""
    whole = json.loads(json.dumps(facts))
    write_json(path, {FACTS: whole, DIGEST: digest_of(whole)})


def read_facts(path: Path) -> Any:
    """Read what `write_facts` has written; None where it is missing or damaged."""
    document = json_or_none(path)
    if not isinstance(document, dict) or document.keys() != {FACTS, DIGEST}:
        return None
    return document[FACTS] if digest_of(document[FACTS]) == document[DIGEST] else None


def digest_of(facts: Any) -> str:
    """Content hash of facts, independent of layout and order of keys."""
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()
