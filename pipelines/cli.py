"""The `hushbeam` command."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, NoReturn, TextIO

from mechanisms.nearest import meant
from pipelines.errors import (
    PUBLISHED_OR_NOT,
    RUN_FAILED,
    WITHHELD,
    WRONG_REQUEST,
    Caution,
    FailedError,
    Notice,
    RequestError,
    UnknownWordsError,
    WithheldError,
    stranger,
    system_reason,
)
from pipelines.quiet import quiet
from pipelines.stores import require_reachable

_STOPPED = threading.Event()  # whether this process was told to stop


# Options that mean the same, or more, where they are typed again.
_OFTEN = (argparse._AppendAction, argparse._StoreTrueAction)


class Parser(argparse.ArgumentParser):
    """Complains in one line, and takes an option once."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # argparse would take the last, and publish what nobody reads a command line for.
        typed = Counter(word.partition("=")[0] for word in args or () if word.startswith("--"))
        self._typed = [*typed]
        once = (action for action in self._actions if type(action) not in _OFTEN)
        for flag in (flag for action in once for flag in action.option_strings):
            if typed[flag] > 1:
                self.error(f"{flag} is there {typed[flag]} times; say it once")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            asked = meant(str(value), known)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}; there are: {', '.join(known)}{asked}"
            )

    def error(self, message: str) -> NoReturn:
        if "are required" in message:  # which may be there, in other letters
            message += misspelt(self._typed, self._option_string_actions)
        if message.endswith("expected one argument"):
            message += "; one that begins with - needs an equals sign, as in --bounds=-5,5"
        raise RequestError(f"{message} ({self.prog} --help tells more)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after `hushbeam`; those of this process by default.

    Returns:
        0 done; 1 withheld; 2 the request or its input is wrong; 3 the run failed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = False
    try:
        parser = parser_of(arguments)
        known, rest = parser.parse_known_args(arguments)
        if "command" not in known:
            parser.print_help()
            return WRONG_REQUEST
        debug = vars(known).pop("debug", False)
        with _cautioning(), _loud() if debug else quiet():
            require_reachable(arguments)
            return int(known.command(known, rest))
    except UnknownWordsError as error:
        _complain(f"{error}{misspelt(error.words, (*error.known, *_flags(parser)))}")
        return WRONG_REQUEST
    except RequestError as error:
        _complain(str(error))
        return WRONG_REQUEST
    except WithheldError as error:
        _complain(f"withheld: {error}")
        return WITHHELD
    except KeyboardInterrupt:
        _complain(f"interrupted; {PUBLISHED_OR_NOT}")
        return RUN_FAILED
    except FailedError as error:
        _complain(str(error))
        return RUN_FAILED
    except Exception as error:
        if _STOPPED.is_set():
            _complain(f"interrupted; {PUBLISHED_OR_NOT}")
            return RUN_FAILED
        if debug:  # raised further, it would end the process with 1, which means withheld
            traceback.print_exc()
            return RUN_FAILED
        if isinstance(error, OSError) and isinstance(error.filename, str):
            # Raised here, not by a worker: a file of the request, which only its name is told of.
            why = system_reason(error)
            _complain(f"cannot use {error.filename}: {why}; {PUBLISHED_OR_NOT}")
            return WRONG_REQUEST
        _complain(str(stranger(error)))
        return RUN_FAILED


def misspelt(words: Iterable[str], flags: Iterable[str]) -> str:
    """Ask whether an option was meant; empty if no word is like one.

    Args:
        words: that were typed.
        flags: the options that there are.

    >>> misspelt(["--colum=x", "y"], ["--column", "--input"])
    '; did you mean --column?'
    """
    known = [flag for flag in flags if flag.startswith("--")]
    typed = (word.partition("=")[0] for word in words)
    strange = (word for word in typed if word.startswith("--") and word not in known)
    return next(filter(None, (meant(word, known) for word in strange)), "")


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser, and of the commands that it has."""
    yield from parser._option_string_actions
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from _flags(part)


def entry() -> NoReturn:
    """The process behind the `hushbeam` command."""
    # Whoever stops a job (a scheduler, a container, a closed terminal) ends it as Ctrl-C does: what
    # was set aside in a ledger is given back, and nothing is left half written.
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) is not signal.SIG_IGN:  # as under `nohup`
            signal.signal(stop, _stop)
    # A narrow encoding is no reason to fail a run that has published.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    code = main()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # a full disk behind it, or a reader who has left
            stream.flush()
    # Leave without taking the interpreter apart: Arrow's reader threads can still be alive and
    # then abort the process (apache/arrow#34314), which would turn a published release into a
    # failure for whoever reads the exit code. Seen once in some 60 runs.
    os._exit(code)


def _stop(*_: object) -> NoReturn:
    """Interrupt; and remember it, for Beam may make another exception of it on its way."""
    _STOPPED.set()
    raise KeyboardInterrupt


def parser_of(words: Sequence[str]) -> Parser:
    """A parser of a command line, which knows the options of the command that is typed there.

    Args:
        words: of the command line.
    """
    parser = Parser(
        prog="hushbeam",
        usage="%(prog)s [--version] [--debug] COMMAND ...",
        allow_abbrev=False,
        description="Publish what telemetry says about a population, and nothing about a person.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hushbeam {version('hushbeam')}")
    commands = parser.add_subparsers(
        metavar="COMMAND", help=argparse.SUPPRESS, parser_class=Parser, prog="hushbeam"
    )
    if [*words] == ["--version"]:  # a fact of the package: no command's options need be known
        return parser
    from pipelines.commands import add_commands, listed

    word = next((word for word in words if not word.startswith("-")), None)
    add_commands(commands, word)
    if word is None:
        parser.epilog = listed()
    for part in (parser, *commands.choices.values()):
        part.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS,
            help="show Beam's log and tracebacks",
        )  # fmt: skip
    return parser


@contextlib.contextmanager
def _cautioning() -> Iterator[None]:
    """Show a `Caution` as a line of ours, also while everybody else has to be silent."""
    others = warnings.showwarning
    with warnings.catch_warnings(), open(os.dup(2), "w") as stderr:

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, Caution):
                kind = "" if issubclass(category, Notice) else "warning: "
                _complain(f"{kind}{message}", stderr)
            else:
                others(message, category, *where, **more)

        warnings.showwarning = show
        warnings.simplefilter("always", Caution)
        yield


@contextlib.contextmanager
def _loud() -> Iterator[None]:
    """Show Beam's log."""
    logging.basicConfig(level=logging.INFO)
    yield


def _complain(line: str, stream: TextIO | None = None) -> None:
    print(f"hushbeam: {' '.join(line.split())}", file=stream or sys.stderr, flush=True)


if __name__ == "__main__":
    entry()
