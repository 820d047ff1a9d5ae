"""A command that publishes, made from the class of its options."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from pipelines.ledger.paying import PREFIX, add_options, payment
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.commands import argument, imported
from pipelines.request.options import (
    PROMISE,
    RESULT,
    SUBJECT,
    description,
    essential,
    flag,
    is_essential,
)
from pipelines.request.requests import request

ALL = "--help-all"
ABOUT = "about"  # where an option's field is kept, of which its help is made

_EXAMPLE = re.compile(r"^ +hushbeam (?:.*\\\n)*.*$", re.MULTILINE)
_SENTENCE = re.compile(r"\.(?= )|;(?= )")


def add_pages(parser: argparse.ArgumentParser) -> None:
    """Add `--help`, the short page, and `--help-all`, the whole one."""
    parser.add_argument(
        "-h", "--help", action=_Short, help="show the options that most people need, and exit"
    )
    parser.add_argument(ALL, action="help", help="show all options, and exit")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Makes help when somebody reads it: to list all mechanisms takes half a second of imports."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        field = vars(action).get(ABOUT)
        return action.help if field is None else _help(field)


class _Brief(Formatter):
    """The same with the first sentence of each text."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = super()._get_help_string(action)
        return text and _SENTENCE.split(text)[0]

    def filled(self, text: str) -> str:
        return textwrap.fill(text.replace("\n", " "), self._width)


class _Short(argparse.Action):
    """Shows the short page, and ends."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, 0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser._print_message(_short(parser), sys.stdout)
        parser.exit()


def _short(parser: argparse.ArgumentParser) -> str:
    """The options that most people need, an example, and where the others are."""
    page = _Brief(parser.prog)
    page.add_usage(None, [action for action in parser._actions if action.required], [])
    page.add_text(page.filled(parser.description or ""))
    for group in parser._action_groups:
        page.start_section(group.title)
        page.add_arguments(filter(is_essential, group._group_actions))
        page.end_section()
    page.add_text("\n".join(_closing(parser)))
    return page.format_help()


def _closing(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The first example, and how to see all options."""
    example = _EXAMPLE.search(parser.epilog or "")
    if example is not None:
        yield from ("example:", example[0], "")
    yield f"`{parser.prog} {ALL}` shows all options"


def _help(field: FieldInfo) -> str:
    """The text of an option with all that there is to say on a command line."""
    about = description(field)
    text = f"{about} ({about.hint})" if about.hint else str(about)
    if about.repeated:
        text += ". As often as needed"
    if not field.is_required() and field.default not in (None, False, (), ""):
        default = field.default
        text += f" (default: {default if isinstance(default, str) else format(default, 'g')})"
    return text.replace("%", "%%")


_WIDTH = 100  # of a description; examples are as wide as they were written
_END = """
Every option that hushbeam does not know goes to Beam: --runner DataflowRunner --project ...
Here all cores take part in a large job; --direct_num_workers 1 leaves it to one.
exit codes: 0 done; 1 withheld, {withheld}; 2 the request or its input is wrong;
3 the run failed{failed}.
"""

Run = Callable[[argparse.Namespace, list[str]], int]


def add_command(
    commands: Any, name: str, options: type[ReleaseOptions], run: Run | str,
    more: Mapping[str, Mapping[str, FieldInfo]] | None = None,
) -> None:  # fmt: skip
    """Add a command.

    Args:
        commands: where it is added.
        name: as it is typed.
        options: what a request for it may say.
        run: what it does; or where that is, as in "pipelines.train.publish:run".
        more: heading -> options of which none is required; those that are there already are
            left out.
    """
    codes = _END.format(withheld=options.withheld, failed=options.failed)
    parser = commands.add_parser(
        name,
        description=textwrap.fill(options.description, _WIDTH),
        epilog=options.examples + codes,
        add_help=False,
        formatter_class=Formatter,
    )
    add_pages(parser)
    fields = options.model_fields
    for title in _titles(options):
        own = {name: fields[name] for name in fields if description(fields[name]).group == title}
        _add_group(parser, title or options.subject, own)
    for title, others in (more or {}).items():
        own = {name: field for name, field in others.items() if name not in fields}
        _add_group(parser, title, own, required=False)
    add_options(parser)
    parser.set_defaults(command=_publishing(options, run) if isinstance(run, str) else run)


def _publishing(options: type[ReleaseOptions], place: str) -> Run:
    """What publishes at a place, given its options, what is for Beam, and who pays."""

    def command(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
        form = request(options, typed(arguments))
        # Beam takes a second to import, and warns while it does: what is refused need not wait,
        # and by now logs are silent.
        publish: Callable[..., int] = imported(place)
        return publish(form, beam_arguments, payment(arguments))

    return command


def _add_group(
    parser: argparse.ArgumentParser, title: str, fields: dict[str, FieldInfo], required: bool = True
) -> None:
    """Add options under a heading, and mark those that the short page shows, too."""
    group = parser.add_argument_group(title)
    for name, field in fields.items():
        words = argument(field) | {"help": ABOUT}
        if not required:
            words.pop("required", None)
        word = name if description(field).positional else flag(name)
        action = group.add_argument(word, **words)
        vars(action)[ABOUT] = field
        if description(field).essential or action.required:
            essential(action)


def typed(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was typed, by option."""
    words = vars(arguments).items()
    return {k: value for k, value in words if k != "command" and not k.startswith(PREFIX)}


def _titles(options: type[ReleaseOptions]) -> Iterator[str]:
    """The headings: first those that every command has, at the end what comes out."""
    own = dict.fromkeys(description(field).group for field in options.model_fields.values())
    yield from (SUBJECT, PROMISE)
    yield from (title for title in own if title not in (SUBJECT, PROMISE, RESULT))
    yield RESULT
