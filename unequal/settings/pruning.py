"""`pruning`: methods by which a network is brought under a limit of FLOPs, each under a name."""

import os
import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, model_validator

from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Budget, DrawCount, Outside

#: Whose timesteps count: those of the pruned model's range alone, or all.
Timesteps = Literal["group", "all"]


class Random(Strict):
    """Channels are drawn."""

    method: Literal["random"]


class Magnitude(Strict):
    """The smallest weights go first."""

    method: Literal["magnitude"]


class Taylor(Strict):
    """|w·∂L/∂w| of one batch."""

    method: Literal["taylor"]
    timesteps: Timesteps = Field(description="drawn uniformly from the group's, or from all")
    images: BatchSize = Field(description="of the batch")


class DiffPruning(Strict):
    """|w·Σ_t ∂L_t/∂w| over rising timesteps, as long as their loss is of weight (2305.10924)."""

    method: Literal["diff_pruning"]
    timesteps: Timesteps = Field(description="the group's, or all")
    images: BatchSize = Field(description="at each timestep")
    threshold: float = Field(gt=0, lt=1, description="share of the largest loss so far under which the sum ends")


#: Methods that rate the importance of each channel.
Importance = Annotated[Random | Magnitude | Taylor | DiffPruning, Field(discriminator="method")]


class Tpe(Strict):
    """Optuna's tree-structured Parzen estimator; needs no network."""

    kind: Literal["tpe"]


#: Where OpenAI's own key may go, whatever a file that somebody has sent says.
OPENAI_HOST, OPENAI_KEY = "api.openai.com", "OPENAI_API_KEY"
#: Names of keys that any endpoint may get begin so; the variable of the second name lists others.
KEY_PREFIX, ALLOWED_KEYS = "UNEQUAL_", "UNEQUAL_KEYS"


class Prices(Strict):
    """Prices in US dollars a million tokens."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0, description="reasoning included")


class Llm(Strict):
    """A language model behind an OpenAI-compatible chat endpoint."""

    kind: Literal["llm"]
    model: str = Field(min_length=1)
    base_url: str = Field(description="of the endpoint, up to and with its version, as in http://localhost:11434/v1")
    api_key_env: str | None = Field(
        description="name of the environment variable that holds the key: UNEQUAL_…, one of those that $UNEQUAL_KEYS "
        "lists, or, for OpenAI, OPENAI_API_KEY; null: the endpoint takes none"
    )
    answer_format: Literal["json_schema", "json_object", "text"] = Field("json_schema", description="that is asked for")
    timeout_s: PositiveFloat = Field(default=120.0, le=86_400, description="longest wait for an answer")
    attempts: int = Field(default=4, gt=0, le=20, description="requests a round, until an answer is sound")
    usd_per_million_tokens: Prices | None = Field(None, description="for the figures; null: cost is not counted")

    @model_validator(mode="after")
    def secrets_stand_elsewhere(self) -> Self:
        """Refuse keys and passwords, since params.yaml ends in logs; values are not repeated."""
        if self.api_key_env is not None and not re.fullmatch(r"[A-Z][A-Z0-9_]*", self.api_key_env):
            raise ValueError(
                "api_key_env: holds no name of an environment variable (capital letters, digits and _); "
                "the key itself belongs into that variable, not here"
            )
        if not is_address(self.base_url):
            raise ValueError("base_url: is no address; allowed: http://… or https://…")
        address = urlsplit(self.base_url)
        if address.username or address.password or address.query:
            raise ValueError("base_url: holds a user, a password or a query; keys come from api_key_env alone")
        if self.api_key_env is not None and not may_be_sent(self.api_key_env, address.hostname):
            raise ValueError(
                f"api_key_env: {self.api_key_env} is not sent to {address.hostname}; allowed: names that begin with "
                f"{KEY_PREFIX}, those that the environment variable {ALLOWED_KEYS} lists, separated by commas, and "
                f"{OPENAI_KEY} for {OPENAI_HOST}"
            )
        return self


def may_be_sent(name: str, host: str | None) -> bool:
    """Check that a variable of the environment may go to a host: a params file of somebody else may name any."""
    listed = os.environ.get(ALLOWED_KEYS, "").replace(",", " ").split()
    return name.startswith(KEY_PREFIX) or name in listed or (name == OPENAI_KEY and host == OPENAI_HOST)


def is_address(url: str) -> bool:
    """Check a URL of the web: a host that name servers take, a port and no control characters."""
    try:
        address = urlsplit(url)
        host, port = (address.hostname or "").encode("idna"), address.port
    except ValueError:  # UnicodeError too: of a host with empty or too long parts
        return False
    return address.scheme in ("http", "https") and bool(host) and port != 0 and url.isprintable()


class Finetuning(Strict):
    """A short training of a candidate before its loss is measured; the result is untrained."""

    images: Budget
    batch_size: BatchSize
    lr: PositiveFloat


class Proxy(Strict):
    """An iterative decision maker chooses a pruning ratio for each block (paper 3, eqs. 9–12)."""

    method: Literal["proxy"]
    decider: Annotated[Tpe | Llm, Field(discriminator="kind")]
    ranking: Importance = Field(description="which channels of a block go first")
    start: tuple[Importance, ...] = Field(description="methods whose choices are tried before the first round")
    rounds: int = Field(ge=0, le=1000, description="R; the paper runs 5")
    candidates: int = Field(gt=0, le=1000, description="schemes a round; the paper tries 3")
    images: DrawCount = Field(description="that measure a candidate's loss, on the group's timesteps")
    finetuning: Finetuning | None = Field(description="before that loss is measured; null: none")
    control: Literal["random"] | None = Field(None, description="compare with as many random schemes; null: none")
    replay: Outside | None = Field(None, description="memory_bank.jsonl, or a folder of group_<number>/ with one each")

    @property
    def trials(self) -> int:
        """Schemes that are tried in all."""
        return len(self.start) + self.rounds * self.candidates

    @model_validator(mode="after")
    def something_is_tried(self) -> Self:
        """There is a best scheme."""
        if not self.trials and self.replay is None:
            raise ValueError("rounds: 0 with an empty start tries no scheme")
        return self


#: One way of pruning.
Pruning = Annotated[Random | Magnitude | Taylor | DiffPruning | Proxy, Field(discriminator="method")]
