"""A command made from the class of its options, whose work is imported when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

from pydantic.fields import FieldInfo

from pipelines.request.options import description, flag, type_of
from pipelines.request.requests import RequestOptions, no_more, request


def add(
    commands: Any, name: str, options: type[RequestOptions], run: str | Callable[..., int],
    about: str, epilog: str = "", beam: bool = False, **more: Any,
) -> argparse.ArgumentParser:  # fmt: skip
    """Add a command.

    Args:
        commands: where it is added.
        name: as it is typed.
        options: what a request for it may say.
        run: what takes the options and returns the exit code; or where that is, as in
            "pipelines.plan.draft:init". Beam takes a second to import, and warns while it does: by
            the time that a place is imported, logs are silent.
        about: what the command is for.
        epilog: what its page ends with.
        beam: whether `run` takes the words for Beam, too; of others such words are refused.
        more: as of `add_parser`.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name, description=about, epilog=epilog, **more
    )
    for option, field in options.model_fields.items():
        word = option if description(field).positional else flag(option)
        text = str(description(field)).replace("%", "%%")
        parser.add_argument(word, **argument(field) | {"help": text})
    parser.set_defaults(command=deferred(run, options, beam))
    return parser


def deferred(
    run: str | Callable[..., int], options: type[RequestOptions] | None = None, beam: bool = False
) -> Callable[[argparse.Namespace, list[str]], int]:
    """What argparse is given of a command: as of `add`; without a class it takes all words."""

    def command(arguments: argparse.Namespace, rest: list[str]) -> int:
        if not beam:
            no_more(rest)
        words: Any = arguments
        if options is not None:
            words = request(options, {name: vars(arguments)[name] for name in options.model_fields})
        does: Callable[..., int] = run if callable(run) else imported(run)
        return does(words, *[rest] * beam)

    return command


def imported(place: str) -> Any:
    """What is at a place, as in "pipelines.plan.draft:init"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def argument(field: FieldInfo) -> dict[str, Any]:
    """What argparse needs of an option; what nobody types is left to the options' class."""
    about, (kind, values) = description(field), type_of(field)
    words: dict[str, Any] = {"default": None}
    if kind is bool:
        return words | {"action": "store_true"}
    if not about.positional:
        words["required"] = field.is_required()
    elif not field.is_required():
        words["nargs"] = "?"
    if kind is Literal and about.metavar is None:  # else the options' class says what there is
        return words | {"choices": values}
    if kind is tuple and ... not in values:
        return words | {"nargs": len(values), "metavar": tuple(str(about.metavar).split())}
    if kind is tuple:
        words |= {"action": "append"} if about.repeated else {"nargs": "+"}
    return words | {"metavar": about.metavar}
