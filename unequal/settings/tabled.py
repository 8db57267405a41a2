"""Settings of functions that make a table over timesteps: a class for each, with a key for each of its keywords."""

from collections.abc import Callable, Sequence
from functools import reduce
from inspect import Parameter, signature
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, create_model

from unequal.settings.strict import Strict
from unequal.timesteps.densities import Above, Between

M = TypeVar("M", bound=Strict)


def settings_of(function: Callable[..., Any], base: type[M], key: str = "kind") -> type[M]:
    """A kind of settings, named as a function is, with the function's keywords, their types, bounds and defaults.

    Args:
        function: with one argument that is computed on, and keywords.
        base: class of the settings.
        key: its field that holds the name.
    """
    name = function.__name__
    keys = {
        keyword: (checked(one.annotation), ... if one.default is Parameter.empty else one.default)
        for keyword, one in signature(function).parameters.items()
        if one.kind is Parameter.KEYWORD_ONLY
    }
    fields: dict[str, Any] = {key: (Literal[name], ...)} | keys
    title = "".join(part.capitalize() for part in name.split("_"))
    return create_model(title, __base__=base, __module__=base.__module__, __doc__=function.__doc__, **fields)


def checked(annotation: Any) -> Any:
    """A keyword's annotation with its bounds as those of a field."""
    match get_args(annotation):
        case (kind, Above(bound)):
            return Annotated[kind, Field(gt=bound)]
        case (kind, Between(lowest, highest)):
            return Annotated[kind, Field(ge=lowest, le=highest)]
    return annotation


def one_of(kinds: Sequence[type[Strict]], key: str = "kind") -> Any:
    """The type of settings of one of several kinds, which a key distinguishes."""
    return Annotated[reduce(or_, kinds), Field(discriminator=key)]


def keywords(settings: Strict, function: Callable[..., Any]) -> dict[str, Any]:
    """Values of a function's keywords in settings made by `settings_of`."""
    return {key: getattr(settings, key) for key in signature(function).parameters if key in type(settings).model_fields}
