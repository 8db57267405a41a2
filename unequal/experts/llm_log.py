"""Log of the requests to a language model: time, tokens and cost of each, and their means a round.

Paper 3 prices its decision maker by the time of GPT-4's inference (Table IV).
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, NonNegativeFloat, NonNegativeInt

from unequal.runtime.files import read_facts, write_bytes, write_facts
from unequal.settings.pruning import Prices

#: File of a finished search, and of one that may be resumed.
REQUESTS, STATE = "llm_requests.jsonl", "llm_requests.json"
#: Tokens that a price is for.
PRICED = 1_000_000
#: Figures of requests that are summed.
SUMMED = ("seconds", "prompt_tokens", "completion_tokens", "usd")


class LoggedRequest(BaseModel):
    """One request; tokens are None where nobody says, `usd` also where no price is set, and 0 where it failed."""

    round: NonNegativeInt
    attempt: NonNegativeInt
    seconds: NonNegativeFloat
    outcome: str
    prompt_tokens: NonNegativeInt | None = None
    completion_tokens: NonNegativeInt | None = None
    usd: NonNegativeFloat | None = None


def cost(prompt_tokens: int | None, completion_tokens: int | None, prices: Prices | None) -> float | None:
    """US dollars for tokens; None where they or the prices are unknown."""
    if prices is None or prompt_tokens is None or completion_tokens is None:
        return None
    return (prompt_tokens * prices.prompt + completion_tokens * prices.completion) / PRICED


class RequestLog:
    """The requests so far of a search, in a folder of resumable state."""

    def __init__(self, work: Path) -> None:
        self.path = work / STATE
        self.requests = list(map(LoggedRequest.model_validate, read_facts(self.path) or []))

    def add(self, request: LoggedRequest) -> None:
        """Write a request down; it is on the disk when this returns."""
        write_facts(self.path, [one.model_dump() for one in (*self.requests, request)])
        self.requests.append(request)

    def publish(self, folder: Path) -> None:
        """Write the requests into a model's folder, as JSON lines; no file where there are none."""
        if self.requests:
            write_bytes(folder / REQUESTS, "".join(f"{one.model_dump_json()}\n" for one in self.requests).encode())

    def a_round(self) -> dict[str, Any]:
        """Means a round of what the requests took; None where some do not say."""
        rounds = len({one.round for one in self.requests})
        columns = {name: [getattr(one, name) for one in self.requests] for name in SUMMED}
        means = {name: None if None in column else sum(column) / rounds for name, column in columns.items()}
        return {"rounds": rounds, "requests": len(self.requests)} | {f"{k}_a_round": mean for k, mean in means.items()}
