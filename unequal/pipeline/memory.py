"""What a user is told where memory runs out: of which device, and by which settings a stage takes less."""

import sys
from collections.abc import Mapping

from unequal.errors import one_line
from unequal.pipeline.store import leaves
from unequal.settings.strict import StageSettings

#: How PyTorch says it where it has no class for it: of the host's memory, and of a library on the GPU.
SIGNS = ("can't allocate memory", "std::bad_alloc", "ALLOC_FAILED", "CUDA error: out of memory")
QUOTED = 160
#: What takes memory where no batch does.
COUNTS = ("samples", "images", "features")


def memory_refusal(error: BaseException, settings: StageSettings, keys: Mapping[str, str]) -> str | None:
    """Why memory ran out and what to lower, in one line; None where an error says something else.

    Args:
        error: that ended a stage.
        settings: of the stage.
        keys: field of the settings → dotted key in params.yaml.
    """
    if not out_of_memory(error):
        return None
    remedies = remedies_in(settings, keys)
    advice = "; " + " or ".join(remedies) if remedies else ""
    return f"out of memory ({one_line(error)[:QUOTED]}){advice}"


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of a GPU or of the machine is full."""
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def remedies_in(settings: StageSettings, keys: Mapping[str, str]) -> list[str]:
    """The settings of a stage that take less memory, those first that change no result."""
    dumped = settings.model_dump(mode="json")
    found = [dotted for dotted, _ in leaves({dotted: dumped[field] for field, dotted in keys.items()})]
    parts = [f"raise {dotted}" for dotted in found if dotted.endswith("gradient_accumulation")]
    parts += [f"lower {dotted}" for dotted in found if dotted.endswith("batch_size")]
    return parts or [f"lower {dotted}" for dotted in found if dotted.endswith(COUNTS)]
