"""A language model as the decision maker, behind any OpenAI-compatible chat endpoint.

It gets facts of the network and of tried schemes, never images or weights. Its answers are untrusted text:
they are checked against a schema, refused with the reason, and asked for again a bounded number of times. The client
waits and tries again where a server is busy. Each request is logged with its time, tokens and cost, since paper 3
prices its decision maker by them (Table IV).
"""

import base64
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, NonNegativeFloat, NonNegativeInt

from unequal.errors import UserError
from unequal.experts.anatomy import blocks_of
from unequal.experts.answers import Completion, Refused, answer_model, completion_in, schemes_in
from unequal.experts.bank import Candidate, Proposal
from unequal.experts.evaluator import Evaluator
from unequal.experts.prompt import prompt_of
from unequal.runtime.files import read_facts, write_bytes, write_facts
from unequal.settings.pruning import Llm

#: Sent in a key's place, lest the library look for one in the environment.
NO_KEY = "none"
#: Characters of a stranger's words that are shown or sent back.
QUOTED = 200
#: File of a finished search, and of one that may be resumed.
REQUESTS, STATE = "llm_requests.jsonl", "llm_requests.json"
#: Figures of requests that are summed.
SUMMED = ("seconds", "prompt_tokens", "completion_tokens", "usd")


class Unanswered(UserError):
    """The model was asked as often as allowed, and gave no sound answer."""


class LoggedRequest(BaseModel):
    """One request; tokens are None where nobody says, `usd` also where no price is set."""

    round: NonNegativeInt
    attempt: NonNegativeInt
    seconds: NonNegativeFloat
    outcome: str
    prompt_tokens: NonNegativeInt | None = None
    completion_tokens: NonNegativeInt | None = None
    usd: NonNegativeFloat | None = None


class RequestLog:
    """The requests so far of a search, in a folder of resumable state."""

    def __init__(self, work: Path) -> None:
        self.path = work / STATE
        self.requests = list(map(LoggedRequest.model_validate, read_facts(self.path) or []))

    def add(self, request: LoggedRequest) -> None:
        """Write a request down; it is on the disk when this returns."""
        self.requests.append(request)
        write_facts(self.path, [logged.model_dump() for logged in self.requests])

    def publish(self, folder: Path) -> None:
        """Write the requests into a model's folder, as JSON lines; no file where there are none."""
        if self.requests:
            lines = (f"{request.model_dump_json()}\n" for request in self.requests)
            write_bytes(folder / REQUESTS, "".join(lines).encode())

    def means_a_round(self) -> dict[str, Any]:
        """Average over rounds what the requests took; None where some do not say."""
        rounds = len({request.round for request in self.requests})
        columns = {name: [getattr(request, name) for request in self.requests] for name in SUMMED}
        means = {name: None if None in column else sum(column) / rounds for name, column in columns.items()}
        return {"rounds": rounds, "requests": len(self.requests)} | {f"{k}_a_round": mean for k, mean in means.items()}


class LanguageModel:
    """Asks a model for the schemes of a round.

    Raises:
        UserError: the environment variable of the key is empty.
    """

    def __init__(self, settings: Llm, evaluator: Evaluator, count: int, log: RequestLog) -> None:
        self.settings, self.evaluator, self.count, self.log = settings, evaluator, count, log
        self.key = key_of(settings)
        self.answer = answer_model(list(blocks_of(evaluator.ranking)), count)

    def propose(self, round_: int, bank: Sequence[Candidate]) -> list[Proposal]:
        """Ask for the schemes of a round.

        Raises:
            Unanswered: there was no sound answer, or none in time.
            UserError: asking again would not help: the key, the model or the prompt is refused, or nobody answers at
                the address.
        """
        prompt = prompt_of(self.evaluator, bank, self.count)
        complaint = reason = ""
        for attempt in range(self.settings.attempts):
            began, outcome, completion = time.monotonic(), "taken", Completion()
            try:
                completion = completion_in(self.ask(prompt + complaint))
                schemes = schemes_in(completion.text(), self.answer)
                return [Proposal(f"llm {self.settings.model}", scheme) for scheme in schemes]
            except Refused as error:
                outcome = reason = self.quoted(error)
                complaint = f"\nYour last answer was refused: {reason}. Answer again.\n"
            except UserError as error:
                outcome = self.quoted(error)
                raise
            finally:
                self.log.add(self.request(round_, attempt, time.monotonic() - began, outcome, completion))
        raise Unanswered(
            f"pruning: {self.settings.base_url}: no sound answer in {self.settings.attempts} attempts, "
            f"at last: {reason}"
        )

    def request(self, round_: int, attempt: int, seconds: float, outcome: str, completion: Completion) -> LoggedRequest:
        """Describe a request, with its cost in US dollars where tokens and prices are known."""
        (sent, received), prices = completion.tokens, self.settings.usd_per_million_tokens
        usd = None
        if prices is not None and sent is not None and received is not None:
            usd = (sent * prices.prompt + received * prices.completion) / 1e6
        return LoggedRequest(
            round=round_,
            attempt=attempt,
            seconds=seconds,
            outcome=outcome,
            prompt_tokens=sent,
            completion_tokens=received,
            usd=usd,
        )

    def ask(self, prompt: str) -> bytes:
        """Return the body of the endpoint's response. Raises UserError, Unanswered where another time may be better."""
        import openai

        settings, place = self.settings, f"pruning: {self.settings.base_url}"
        # Followed, a redirection would take the prompt to an address that nobody has named.
        http = openai.DefaultHttpxClient(follow_redirects=False)
        try:
            with openai.OpenAI(
                api_key=self.key or NO_KEY,
                base_url=settings.base_url,
                max_retries=settings.attempts - 1,
                timeout=settings.timeout_s,
                http_client=http,
            ) as client:
                response = client.chat.completions.with_raw_response.create(
                    model=settings.model, messages=[{"role": "user", "content": prompt}], **self.form()
                )
                return response.content
        except openai.APITimeoutError:
            raise Unanswered(f"{place}: no answer within {settings.timeout_s:g} s") from None
        except openai.APIStatusError as error:
            said = f"status {error.status_code} ({self.quoted(error.message)})"
            if error.status_code in (401, 403):
                sender = f"the key in ${settings.api_key_env}" if self.key else "a request without a key"
                raise UserError(f"{place}: {sender} is refused, {said}") from None
            if error.status_code == 404:
                raise UserError(f"{place}: no model '{settings.model}' there, {said}") from None
            busy = error.status_code in (408, 409, 429) or error.status_code >= 500
            raise (Unanswered if busy else UserError)(f"{place}: {said}") from None
        except openai.APIConnectionError as error:
            raise UserError(f"{place}: no connection ({self.quoted(error.__cause__ or error)})") from None
        except Exception as error:  # the HTTP library's own, for an address that it refuses
            raise UserError(f"{place}: {self.quoted(error)}") from None

    def form(self) -> dict[str, Any]:
        """Return the arguments that ask the endpoint for the form of an answer."""
        match self.settings.answer_format:
            case "json_schema":
                schema = {"name": "schemes", "strict": True, "schema": self.answer.model_json_schema()}
                return {"response_format": {"type": "json_schema", "json_schema": schema}}
            case "json_object":
                return {"response_format": {"type": "json_object"}}
            case "text":
                return {}

    def quoted(self, words: object) -> str:
        """Put a stranger's words into one short line, without control characters, and without the key in any form."""
        line = str(words)
        for form in forms_of(self.key):
            line = line.replace(form, "…")
        return "".join(letter for letter in " ".join(line.split()) if letter.isprintable())[:QUOTED]


def forms_of(secret: str) -> list[str]:
    """List a secret and what it is easily told by: reversed, in base64 and in hexadecimal digits."""
    if not secret:
        return []
    encoded = secret.encode()
    both = (base64.b64encode(encoded).decode(), base64.urlsafe_b64encode(encoded).decode())
    return [secret, secret[::-1], *both, *(form.rstrip("=") for form in both), encoded.hex()]


def key_of(settings: Llm) -> str:
    """Return the key; empty where the endpoint takes none. Raises UserError where there should be one."""
    if settings.api_key_env is None:
        return ""
    key = os.environ.get(settings.api_key_env, "").strip()
    if not re.fullmatch(r"[!-~]+", key):
        raise UserError(
            f"pruning: no key in the environment variable {settings.api_key_env}; set it (visible ASCII letters alone) "
            "or, for an endpoint that takes none, api_key_env: null"
        )
    return key
