"""A language model as the decision maker, behind any OpenAI-compatible chat endpoint.

It gets facts of the network and of tried schemes, never images or weights. Its answers are untrusted text:
they are checked against a schema, refused with the reason, and asked for again a bounded number of times.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import urlsplit

from unequal.errors import UserError, plain
from unequal.experts.anatomy import blocks_of
from unequal.experts.answers import Completion, Refused, answer_model, completion_in, error_in, schemes_in
from unequal.experts.bank import Candidate, Proposal
from unequal.experts.evaluator import Evaluator
from unequal.experts.llm_log import LoggedRequest, RequestLog, cost
from unequal.experts.prompt import prompt_of
from unequal.settings.pruning import OPENAI_HOST, Llm

#: Sent in a key's place, lest the library look for one in the environment.
NO_KEY = "none"
#: A whole response may have as many; the answer to the prompt takes some thousand.
MAX_BYTES = 1_000_000
#: Longest wait between two attempts, however many there are.
LONGEST_WAIT_S = 600.0
#: Characters of a stranger's words that are shown or sent back.
QUOTED = 200
#: Headers that an endpoint gets, with those by which openai's library knows its own requests; OpenAI gets all.
SENT = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
OF_LIBRARY = "x-stainless-"
#: Libraries whose errors say that a connection failed.
HTTP_LIBRARIES = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
#: Statuses that may pass: request timeout, conflict, too early, too many requests; and whatever the server broke.
RETRYABLE = (408, 409, 425, 429)


T = TypeVar("T")


class Unanswered(UserError):
    """The model was asked as often as allowed, and gave no sound answer."""


class Failed(Exception):
    """Failed attempt and its reason; another may succeed."""


class Unreachable(Failed):
    """Nobody answers at the address."""


class Late(Failed):
    """No answer in time; how many tokens it took is not known, where other failures take none."""


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
        """The schemes of a round.

        Raises:
            Unanswered: there was no sound answer, or none in time.
            UserError: asking again would not help: the key, the model or the length of the prompt is refused, or
                nobody answers at the address.
        """
        prompt = prompt_of(self.evaluator, bank, self.count)
        complaint, failure = "", "it was not asked"
        reached = True
        for attempt in range(self.settings.attempts):
            if attempt:
                time.sleep(min(self.settings.backoff_s * 2.0 ** min(attempt - 1, 32), LONGEST_WAIT_S))
            try:
                schemes = self.attempt(round_, attempt, prompt + complaint)
                return [Proposal(f"llm {self.settings.model}", scheme) for scheme in schemes]
            except Refused as error:
                reached, failure = True, self.quoted(error)
                complaint = f"\nYour last answer was refused: {failure}. Answer again.\n"
            except Failed as error:
                reached, failure = not isinstance(error, Unreachable), str(error)
        place = f"pruning: {self.settings.base_url}"
        if not reached:
            raise UserError(f"{place}: {failure}, in {self.settings.attempts} attempts")
        raise Unanswered(f"{place}: no sound answer in {self.settings.attempts} attempts, at last: {failure}")

    def attempt(self, round_: int, attempt: int, prompt: str) -> list[dict[str, float]]:
        """The schemes in the answer to one request, which is logged whatever comes of it. Raises as `ask` does."""
        began, outcome = time.monotonic(), "taken"
        sent: int | None = None
        got: int | None = None
        try:
            completion = self.ask(prompt)
            sent, got = completion.tokens
            return schemes_in(completion.text(), self.answer)
        except Exception as error:
            outcome = self.quoted(error)
            if isinstance(error, Failed) and not isinstance(error, Late):
                sent = got = 0
            raise
        finally:
            request = LoggedRequest(
                round=round_,
                attempt=attempt,
                seconds=time.monotonic() - began,
                outcome=outcome,
                prompt_tokens=sent,
                completion_tokens=got,
                usd=cost(sent, got, self.settings.usd_per_million_tokens),
            )
            self.log.add(request)

    def ask(self, prompt: str) -> Completion:
        """The model's answer.

        Raises:
            Failed, Refused: another attempt may help.
            UserError: it will not.
        """
        import openai

        deadline = time.monotonic() + self.settings.timeout_s

        def check(response: Any) -> None:
            """Judge a status before openai reads its body, which it would do to the end, however long that took."""
            packed = response.headers.get("Content-Encoding", "identity") != "identity"
            if response.status_code >= 300:
                body = b"" if packed else self.read_error(response.iter_bytes(), deadline)
                raise self.judged(response.status_code, body)
            if packed:
                raise Refused("it is compressed, which was not asked for")

        # Followed, a redirection would take the prompt to an address that nobody has named; unpacked, a piece of a
        # kilobyte may fill the memory.
        http_client = openai.DefaultHttpxClient(
            follow_redirects=False,
            event_hooks={"request": [self.strip_headers], "response": [check]},
            headers={"Accept-Encoding": "identity"},
        )
        try:
            with openai.OpenAI(
                api_key=self.key or NO_KEY, base_url=self.settings.base_url, max_retries=0, http_client=http_client
            ) as client:
                body = within(self.settings.timeout_s, lambda: self.received(client, prompt, deadline))
                return completion_in(body)
        except (openai.APITimeoutError, TimeoutError):
            raise Late(f"no answer within {self.settings.timeout_s:g} s") from None
        except openai.APIConnectionError as error:  # some versions wrap what a hook raises
            raise self.connection_error(error.__cause__ or error) from None
        except Exception as error:
            raise self.connection_error(error) from None

    def connection_error(self, error: BaseException) -> BaseException:
        """The error to raise while connected: a verdict stays; else the host does not exist, or nobody answers."""
        if isinstance(error, Failed | Refused | UserError):
            return error
        # The second one is the HTTP library's, of which openai has had several: there is no one class to name.
        if isinstance(error, UnicodeError) or type(error).__name__ == "InvalidURL":
            return UserError(f"pruning: {plain(self.settings.base_url)}: no address ({self.quoted(error)})")
        if type(error).__module__.partition(".")[0] in HTTP_LIBRARIES:
            return Unreachable(f"no connection ({self.quoted(error)})")
        return error

    def strip_headers(self, request: Any) -> None:
        """Remove what openai adds from the environment, an organization's name for instance, unless it is OpenAI's."""
        if urlsplit(self.settings.base_url).hostname != OPENAI_HOST:
            for name in {name.lower() for name in request.headers} - SENT:
                if not name.startswith(OF_LIBRARY):
                    del request.headers[name]
        request.headers["Authorization"] = f"Bearer {self.key or NO_KEY}"

    def received(self, client: Any, prompt: str, deadline: float) -> bytes:
        """The body of the response. Raises Refused, or TimeoutError."""
        with client.chat.completions.with_streaming_response.create(
            model=self.settings.model,
            messages=[{"role": "user", "content": prompt}],
            timeout=self.settings.timeout_s,
            **self.form(),
        ) as response:
            return self.read_body(response.iter_bytes(), deadline)

    def read_body(self, pieces: Iterable[bytes], deadline: float) -> bytes:
        """A body piece by piece, so that neither its length nor its slowness is endless.

        Raises:
            Refused: it is too long, or breaks off.
            TimeoutError: it is not whole at the deadline.
        """
        body = bytearray()
        try:
            for piece in pieces:
                body += piece
                if len(body) > MAX_BYTES:
                    raise Refused(f"it has more than {MAX_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError
        except (Refused, TimeoutError):
            raise
        except Exception as error:  # the HTTP library's, of which openai has had several
            if time.monotonic() > deadline:
                raise TimeoutError from None
            raise Refused(f"it broke off ({self.quoted(error)})") from None
        return bytes(body)

    def read_error(self, pieces: Iterable[bytes], deadline: float) -> bytes:
        """The body of an error; empty where it cannot be read."""
        try:
            return self.read_body(pieces, deadline)
        except (Refused, TimeoutError):
            return b""

    def form(self) -> dict[str, Any]:
        """Arguments that ask the endpoint for the form of an answer."""
        match self.settings.answer_format:
            case "json_schema":
                schema = {"name": "schemes", "strict": True, "schema": self.answer.model_json_schema()}
                return {"response_format": {"type": "json_schema", "json_schema": schema}}
            case "json_object":
                return {"response_format": {"type": "json_object"}}
            case "text":
                return {}

    def judged(self, code: int, body: bytes) -> Exception:
        """Error for a status, in one line: Failed where it may pass, UserError where it will not."""
        message, kind = error_in(body)
        place, said, status = f"pruning: {self.settings.base_url}", self.quoted(message), f"status {code}"
        if kind == "context_length_exceeded" or "context length" in message.lower():
            return UserError(f"{place}: the prompt is too long for model '{self.settings.model}' ({said})")
        if code in (401, 403):
            held = f"the key in ${self.settings.api_key_env}" if self.key else "a request without a key"
            return UserError(f"{place}: {held} is refused, {status} ({said})")
        if code == 404:
            return UserError(f"{place}: no model '{self.settings.model}' there, {status} ({said})")
        if (code in RETRYABLE or code >= 500) and kind != "insufficient_quota":
            return Failed(f"{status} ({said})")
        return UserError(f"{place}: {status} ({said})")

    def quoted(self, words: object) -> str:
        """A stranger's words in one short line, without control characters, and without the key."""
        line = " ".join((str(words).replace(self.key, "…") if self.key else str(words)).split())
        return "".join(letter for letter in line if letter.isprintable())[:QUOTED]


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of work that may hang where nothing interrupts it: at a name server, at a header that trickles in.

    Raises:
        TimeoutError: it took longer. Its thread is left behind, and ends with the process at the latest.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result(seconds)


def key_of(settings: Llm) -> str:
    """The key; empty where the endpoint takes none. Raises UserError where there should be one."""
    if settings.api_key_env is None:
        return ""
    key = os.environ.get(settings.api_key_env, "").strip()
    if not re.fullmatch(r"[!-~]+", key):
        raise UserError(
            f"pruning: no key in the environment variable {settings.api_key_env}; set it (visible ASCII letters alone) "
            "or, for an endpoint that takes none, api_key_env: null"
        )
    return key
