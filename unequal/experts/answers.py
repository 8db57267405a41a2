"""Answers of a language model: what a chat completion holds, and the schemes in its text.

An answer is untrusted text. Its one JSON object that fits the schema counts, after the last closing tag of its
reasoning. Two different objects are no answer, and nothing is guessed at or mended.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, create_model

from unequal.settings.strict import Strict

#: Ends and beginnings of reasoning, as models mark it: `</think>`, `[THINK]`, `<seed:think>`.
REASONING = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis"
CLOSING, OPENING = (
    re.compile(rf"<{slash}(?:\w+:)?(?:{REASONING})>|\[{slash}(?:{REASONING})\]", re.IGNORECASE) for slash in ("/", "")
)
#: Beginning of an answer's object.
BEGINNING = re.compile(r'\{\s*"schemes"')
#: Objects of a text that are tried, from the last one on: a text may be made of a hundred thousand beginnings.
TRIED = 16
#: Characters of the longest text that is read.
LONGEST = 1_000_000
#: Words of servers for an answer that has come to its end; None where they do not say.
ENDS = (None, "stop", "eos", "end_turn", "stop_sequence")


class Refused(Exception):
    """An answer that cannot be used; the message is the reason."""


class Part(BaseModel):
    """A part of a text that is sent in parts."""

    type: str
    text: str = ""


class Completion(BaseModel):
    """Chat completion, as far as it is read."""

    class Choice(BaseModel):
        """One answer."""

        class Message(BaseModel):
            """Its text, or why there is none."""

            content: str | list[Part] | None = None
            refusal: str | None = None
            reasoning_content: str | None = None
            tool_calls: list[Any] | None = None

        message: Message
        finish_reason: str | None = None

    choices: list[Choice] = []
    error: Any = None
    usage: Any = None

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens of the prompt and of the answer, its reasoning included; None where the endpoint does not say."""
        counts = self.usage if isinstance(self.usage, dict) else {}
        prompt, completion = (counts.get(f"{part}_tokens") for part in ("prompt", "completion"))
        return natural_number(prompt), natural_number(completion)

    def text(self) -> str:
        """Return the text. Raises Refused where there is none, or not all of it."""
        if self.error:
            message = self.error.get("message", self.error) if isinstance(self.error, dict) else self.error
            raise Refused(f"the endpoint reports an error: {message}")
        if not self.choices:
            raise Refused("it has no choices")
        choice, message = self.choices[0], self.choices[0].message
        content = message.content
        if isinstance(content, list):
            content = "".join(part.text for part in content if part.type == "text")
        if choice.finish_reason == "content_filter":
            raise Refused("the endpoint's filter stopped it")
        if message.refusal:
            raise Refused(f"the model declined: {message.refusal}")
        if message.tool_calls:
            raise Refused("it calls tools; there are none")
        if choice.finish_reason not in ENDS:
            raise Refused(f"it was cut short (finish_reason: {choice.finish_reason})")
        if not (content or "").strip():
            raise Refused("it holds reasoning_content alone" if message.reasoning_content else "it is empty")
        return content or ""


def natural_number(value: Any) -> int | None:
    """Return a count as it is, and None for all else."""
    return value if isinstance(value, int) and value >= 0 else None


def completion_in(body: bytes) -> Completion:
    """Read a response. Raises Refused."""
    try:
        return Completion.model_validate_json(body)
    except ValidationError as error:
        raise Refused(f"it is no chat completion, {first_complaint(error)}") from None


def answer_model(blocks: Sequence[str], count: int) -> type[Strict]:
    """Build the schema of an answer: so many schemes, each with a ratio from 0 to 1 for every block and no other."""
    ratios: dict[str, Any] = {block: (float, Field(ge=0, le=1)) for block in blocks}
    scheme = create_model("Scheme", __base__=Strict, **ratios)
    schemes: Any = (list[scheme], Field(min_length=count, max_length=count))  # type: ignore[valid-type]
    return create_model("Answer", __base__=Strict, schemes=schemes)


def schemes_in(text: str, answer: type[Strict]) -> list[dict[str, float]]:
    """Read the schemes of the one object that fits the schema.

    Raises Refused with what is wrong with the last object where none fits, or where two that fit differ.
    """
    if len(text) > LONGEST:
        raise Refused(f"it has more than {LONGEST} characters")
    spoken = without_reasoning(text)
    starts = [match.start() for match in BEGINNING.finditer(spoken)][-TRIED:]
    sound: list[list[dict[str, float]]] = []
    complaint: Refused | None = None
    for start in reversed(starts or [max(spoken.find("{"), 0)]):
        try:
            sound.append(schemes_at(spoken, start, answer))
        except Refused as refusal:
            complaint = complaint or refusal
    if not sound:
        assert complaint is not None
        raise complaint
    if any(schemes != sound[0] for schemes in sound):
        raise Refused("it holds different answers; give one")
    return sound[0]


def schemes_at(text: str, start: int, answer: type[Strict]) -> list[dict[str, float]]:
    """Read the schemes of the object that begins at a place of a text. Raises Refused."""
    decoder = json.JSONDecoder(object_pairs_hook=refuse_repeated_keys)
    try:
        _, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError):  # pydantic says why
        end = len(text)
    try:
        return list(answer.model_validate_json(text[start:end]).model_dump(by_alias=True)["schemes"])
    except ValidationError as error:
        raise Refused(first_complaint(error)) from None


def without_reasoning(text: str) -> str:
    """Cut what stands before the last closing tag of a reasoning, and after an opening one that is not closed.

    Raises Refused where nothing is left.
    """
    spoken = OPENING.split(CLOSING.split(text)[-1], maxsplit=1)[0].lstrip("\ufeff")
    if not spoken.strip():
        raise Refused("it holds a reasoning without an answer")
    return spoken


def refuse_repeated_keys(pairs: Sequence[tuple[str, Any]]) -> Literal[True]:
    """Raise Refused where a key stands twice in an object: which of its two values is meant cannot be known."""
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise Refused(f"key '{name}' stands twice in one object")
        names.add(name)
    return True


def first_complaint(error: ValidationError) -> str:
    """Return the first thing that is wrong, and how many more there are."""
    first, *others = error.errors(include_input=False, include_url=False)
    place = ".".join(map(str, first["loc"]))
    return f"{place + ': ' if place else ''}{first['msg']}{f' (and {len(others)} more)' if others else ''}"
