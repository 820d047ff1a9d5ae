"""The two pages of a command: what most people need, on one screen, and every option."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from pipelines.request.options import description, is_essential

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
    if not field.is_required() and field.default not in (None, False, ()):
        default = field.default
        text += f" (default: {default if isinstance(default, str) else format(default, 'g')})"
    return text.replace("%", "%%")
