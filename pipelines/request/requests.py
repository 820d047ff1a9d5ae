"""From the words of a command line to validated options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

from pipelines.errors import RequestError, UnknownWordsError
from pipelines.request.options import PROMISE, Description, flag, option

LARGEST_EPSILON = 700.0  # beyond it e^epsilon leaves the range of doubles, and all sense
LARGEST_DELTA = 1e-2  # beyond it a promise has to be asked for by name
_LARGE_DELTA = "large_delta"  # the type of a complaint that says itself what it is about
_NO_TRUTH = "it takes no yes or no"
_SAYS_LITTLE = "a release may show that share of all rows as they are and keep its promise"

Epsilon = Annotated[float, Field(gt=0, le=LARGEST_EPSILON)]
Delta = Annotated[float, Field(ge=0, lt=1)]
Confidence = Annotated[float, Field(gt=0, lt=1)]

# Whole numbers, also as people type large ones: 1e6. A schema shows limits that stand before this.
AS_TYPED = BeforeValidator(lambda text: _whole(text))

Whole = Annotated[int, AS_TYPED]
Count = Annotated[int, Field(ge=1), AS_TYPED]

# Which two logs must look alike; a shell splits the words, and YAML does not.
Neighbours = Annotated[
    Literal["add or remove", "replace"],
    BeforeValidator(lambda text: text.replace("-", " ") if isinstance(text, str) else text),
]

# NAME=WORDS each; a YAML file may also say them as a mapping.
Pairs = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda said: _pairs(said)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "string"}},
                {"type": "array", "items": {"type": "string"}},
            ]
        }
    ),
]

# Several texts, or one.
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda said: (said,) if isinstance(said, str) else said),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]

# What is wrong, by pydantic's name for it, in plainer words than pydantic's.
_MUST = {
    "greater_than": "a number greater than {gt:,.10g}",
    "greater_than_equal": "a number of at least {ge:,.10g}",
    "less_than": "a number less than {lt:,.10g}",
    "less_than_equal": "a number of at most {le:,.10g}",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number that is not astronomic",
    "string_pattern_mismatch": "of the form {pattern}",
    "literal_error": "{expected}",
    "string_type": "a text, in quotes if it is a number",
    "string_too_short": "at least {min_length} character long",
    "too_short": "a list of {min_length} or more",
}

_Options = TypeVar("_Options", bound=BaseModel)


def is_truth(value: object) -> bool:
    """Whether it is True or False, also as numpy has them.

    By the names of their types: requests are read where numpy is not imported yet.
    """
    return type(value).__name__ in ("bool", "bool_")


class RequestOptions(BaseModel):
    """What people ask, on a command line, in a YAML file or as arguments of a function."""

    # Validators of the dozen that are only inherited were an eighth of a small job's imports.
    model_config = ConfigDict(defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_typed(cls, value: Any, info: ValidationInfo) -> Any:
        """Lists as words. No truth for a number: Python counts True as 1, so may YAML's `yes`."""
        field = cls.model_fields[str(info.field_name)]
        if is_truth(value) and "bool" not in repr(field.annotation):
            raise PydanticCustomError("truth", _NO_TRUTH)
        about = field.json_schema_extra
        return about.typed(field, value) if isinstance(about, Description) else value

    @field_validator("large_delta", check_fields=False)
    @classmethod
    def _large_if_meant(cls, meant: bool, info: ValidationInfo) -> bool:
        try:
            require_small_delta(info.data.get("delta"), meant)
        except RequestError as error:
            raise PydanticCustomError(_LARGE_DELTA, "{text}", {"text": str(error)}) from None
        return meant


def large_delta() -> Any:
    """The option that says that a delta above `LARGEST_DELTA` is meant; it stands behind it."""
    return option(
        f"accept a delta above {LARGEST_DELTA:g}: {_SAYS_LITTLE}",
        False, group=PROMISE, figure=False, validate_default=True,
    )  # fmt: skip


def require_small_delta(delta: float | None, meant: bool) -> None:
    """Refuse a delta that hardly promises anything, if nobody says that it is meant.

    Raises:
        RequestError: it is so large.
    """
    if delta is not None and delta > LARGEST_DELTA and not meant:
        raise RequestError(
            f"--delta: above {LARGEST_DELTA:g} {_SAYS_LITTLE}; take 1e-6, or say --large-delta, too"
        )


def require_numbers(**given: Any) -> None:
    """Refuse truths among the arguments of a function: Python counts True as 1.

    Raises:
        RequestError: one is a truth.
    """
    for name, value in given.items():
        if is_truth(value):
            raise RequestError(f"{name}: {_NO_TRUTH}")


def request(options: type[_Options], typed: Mapping[str, Any]) -> _Options:
    """Validated options, or the first thing that is wrong with them in one line.

    Args:
        options: their class.
        typed: option -> what was typed; None for what was not.

    Raises:
        RequestError: an option is malformed or out of range.
    """
    try:
        return options(**{name: value for name, value in typed.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # of several options together
            raise RequestError(said) from None
        name, limit = flag(str(first["loc"][0])), must(first)
        if first["type"] == "missing":  # in place of a value it shows the whole request
            raise RequestError(f"{name} is missing") from None
        if first["type"] == _LARGE_DELTA:  # found where it would be said that it is meant
            raise RequestError(first["msg"]) from None
        complaint = f"{name} must be {limit}" if limit else f"{name}: {said}"
        raise RequestError(f"{complaint}, not {first['input']!r}") from None


def must(error: Any) -> str:
    """What a value must be that pydantic has refused, in plain words; empty for rare complaints."""
    return _MUST.get(error["type"], "").format(**error.get("ctx", {}))


def no_more(arguments: Sequence[str]) -> None:
    """Refuse words that a command without a pipeline has no use for."""
    if arguments:
        raise UnknownWordsError(f"unknown: {' '.join(arguments)}; see --help", arguments)


def _pairs(said: object) -> object:
    return tuple(f"{name}={words}" for name, words in said.items()) if type(said) is dict else said


def _whole(text: object) -> object:
    """1e6 as 1000000; what is no whole number is left for the validation to refuse."""
    try:
        number = float(str(text))
    except ValueError:
        return text
    return int(number) if number.is_integer() and "e" in str(text).lower() else text
