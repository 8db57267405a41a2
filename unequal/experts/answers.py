"""Answers of a language model: what a chat completion holds, and the schemes in its text.

An answer is untrusted text. Its last JSON object that fits the schema counts, after the last closing tag of its
reasoning: drafts stand there, and before the answer. Nothing is guessed at or mended.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, create_model

from unequal.settings.strict import Strict

#: Ends and beginnings of reasoning, as models mark it.
REASONING = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis"
CLOSING, OPENING = (re.compile(rf"<{slash}(?:{REASONING})>", re.IGNORECASE) for slash in ("/", ""))
#: Beginning of an answer's object.
BEGINNING = re.compile(r'\{\s*"schemes"')
#: Objects of a text that are tried, from the last one on: a text may be made of a hundred thousand beginnings.
TRIED = 16


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

        message: Message
        finish_reason: str | None = None

    choices: list[Choice] = Field(min_length=1)
    usage: Any = None

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens of the prompt and of the answer, its reasoning included; None where the endpoint does not say."""
        counts = self.usage if isinstance(self.usage, dict) else {}
        prompt, completion = (counts.get(f"{part}_tokens") for part in ("prompt", "completion"))
        return counted(prompt), counted(completion)

    def text(self) -> str:
        """Return the text. Raises Refused where there is none, or not all of it."""
        choice = self.choices[0]
        content, refusal = choice.message.content, choice.message.refusal
        if isinstance(content, list):
            content = "".join(part.text for part in content if part.type == "text")
        if choice.finish_reason == "length":
            raise Refused("it was cut short at the model's longest answer")
        if choice.finish_reason == "content_filter":
            raise Refused("the endpoint's filter stopped it")
        if refusal:
            raise Refused(f"the model declined: {refusal}")
        if not (content or "").strip():
            raise Refused("it is empty")
        return content or ""


def counted(value: Any) -> int | None:
    """Return a count as it is, and None for all else."""
    return value if isinstance(value, int) and value >= 0 else None


class Complaint(BaseModel):
    """Body of an error, as far as it is read."""

    class Error(BaseModel):
        """Message and code of an error."""

        message: str
        code: str | int | None = None

    error: Error


def completion_in(body: bytes) -> Completion:
    """Read a response. Raises Refused."""
    try:
        return Completion.model_validate_json(body)
    except ValidationError as error:
        raise Refused(f"it is no chat completion, {first_complaint(error)}") from None


def error_in(body: bytes) -> tuple[str, str]:
    """Return message and code in the body of an error; of a body in another form the whole body, and no code."""
    try:
        error = Complaint.model_validate_json(body).error
    except ValidationError:
        return body.decode(errors="replace"), ""
    return error.message, str(error.code or "")


def answer_model(blocks: Sequence[str], count: int) -> type[Strict]:
    """Build the schema of an answer: so many schemes, each with a ratio from 0 to 1 for every block and no other."""
    ratios: dict[str, Any] = {block: (float, Field(ge=0, le=1)) for block in blocks}
    scheme = create_model("Scheme", __base__=Strict, **ratios)
    schemes: Any = (list[scheme], Field(min_length=count, max_length=count))  # type: ignore[valid-type]
    return create_model("Answer", __base__=Strict, schemes=schemes)


def schemes_in(text: str, answer: type[Strict]) -> list[dict[str, float]]:
    """Read the schemes of the last object that fits the schema. Raises Refused with what is wrong with the last one."""
    spoken = without_reasoning(text)
    starts = [match.start() for match in BEGINNING.finditer(spoken)][-TRIED:]
    complaint: Refused | None = None
    for start in reversed(starts or [max(spoken.find("{"), 0)]):
        try:
            return schemes_at(spoken, start, answer)
        except Refused as refusal:
            complaint = complaint or refusal
    assert complaint is not None
    raise complaint


def schemes_at(text: str, start: int, answer: type[Strict]) -> list[dict[str, float]]:
    """Read the schemes of the object that begins at a place of a text. Raises Refused."""
    decoder = json.JSONDecoder(object_pairs_hook=unique)
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


def unique(pairs: Sequence[tuple[str, Any]]) -> Literal[True]:
    """Raise Refused where a key stands twice in an object: of its two values there is no telling which is meant."""
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
