"""The `hushbeam` command."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any, NoReturn, TextIO

from mechanisms.nearest import meant
from pipelines.compat import sparing
from pipelines.errors import (
    PUBLISHED_OR_NOT,
    RUN_FAILED,
    STOPPED,
    STOPPED_BY,
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
from pipelines.request import answers
from pipelines.request.answers import quiet
from pipelines.storage.stores import require_reachable

# How many objects are made before Python looks for garbage among them. Imports and a small job make
# fewer: looking through what is imported, again and again, was an eighth of that job's CPU time. A
# job over ten million rows has the same peak memory, and what it leaves the next one looks for.
_COLLECTED = (400_000, 2, 2)

# What Arrow takes memory from, unless somebody has said. Its own default, mimalloc, took some 12 MB
# more of every job over ten million rows, in the same CPU time; the C library's took less of small
# jobs and more of large ones.
_POOL = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
_BUILT_WITH_IT = re.compile(r"^Tag: .*-(many|musl)linux\w*_x86_64$", re.MULTILINE)


# Options that mean the same, or more, where they are typed again.
_OFTEN = (argparse._AppendAction, argparse._StoreTrueAction)


# What an interrupt leaves of commands that publish nothing.
_LEFT = {
    "check": "check publishes nothing",
    "serve": "whatever was answered 2xx is kept; type the same command again",
}


class Parser(argparse.ArgumentParser):
    """Complains in one line, takes an option once and by its whole name, and wraps no text anew."""

    def __init__(self, **said: Any) -> None:
        said.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**{"allow_abbrev": False, **said})

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
            suggestion = meant(str(value), known)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}; there are: {', '.join(known)}{suggestion}"
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
        0 done; 1 withheld; 2 the request or its input is wrong; 3 the run failed; 4 an alarm.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if answers.FLAG not in arguments:
        return _run(arguments)[0]
    with answers.listening() as answer:
        answers.tell(command=_typed_command(arguments))
        code, error = _run(arguments)
    from pipelines.views.console import Screen

    text = answer.written(code, error)
    Screen().say(text)
    return code


def _run(arguments: Sequence[str]) -> tuple[int, str | None]:
    """Run one command; its exit code, and the line that says why it has ended early."""
    debug = False
    try:
        parser = parser_of(arguments)
        known, rest = parser.parse_known_args(arguments)
        if "command" not in known:
            if not answers.wanted():
                parser.print_help()
            return WRONG_REQUEST, "there is no command; hushbeam --help lists them"
        sparing.end_unless_local(rest)
        debug = vars(known).pop("debug", False)
        vars(known).pop("json", None)
        with _cautioning(), _loud() if debug else quiet(), answers.unseen():
            require_reachable(arguments)
            return int(known.command(known, rest)), None
    except UnknownWordsError as error:
        return _ended(
            WRONG_REQUEST, f"{error}{misspelt(error.words, (*error.known, *flags_of(parser)))}"
        )
    except RequestError as error:
        return _ended(WRONG_REQUEST, str(error))
    except WithheldError as error:
        return _ended(WITHHELD, f"withheld: {error}")
    except KeyboardInterrupt:
        return _ended(RUN_FAILED, _interrupted(arguments))
    except FailedError as error:
        return _ended(RUN_FAILED, str(error))
    except Exception as error:
        if STOPPED.is_set():
            return _ended(RUN_FAILED, _interrupted(arguments))
        if isinstance(error, ImportError) and str(error.name).startswith("hushbeam["):
            return _ended(WRONG_REQUEST, str(error))
        if debug:  # raised further, it would end the process with 1, which means withheld
            traceback.print_exc()
            return RUN_FAILED, str(stranger(error))
        if isinstance(error, OSError) and isinstance(error.filename, str):
            # Raised here, not by a worker: a file of the request, which only its name is told of.
            why = system_reason(error)
            return _ended(WRONG_REQUEST, f"cannot use {error.filename}: {why}; {PUBLISHED_OR_NOT}")
        return _ended(RUN_FAILED, str(stranger(error)))


def _interrupted(arguments: Sequence[str]) -> str:
    """What stopped a command, and what it leaves."""
    by = f" by {STOPPED_BY[-1]}" if STOPPED_BY else ""
    return f"interrupted{by}; {_LEFT.get(_typed_command(arguments) or '', PUBLISHED_OR_NOT)}"


def _ended(code: int, why: str) -> tuple[int, str]:
    """Say why a command has ended early."""
    return code, _complain(why)


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


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser, and of the commands that it has."""
    for part in _parts(parser):
        yield from part._option_string_actions


def _parts(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, those of the commands that it has, and of their parts."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from _parts(part)


def memory_pool() -> dict[str, str]:
    """What to tell Arrow of its memory, where its build is known to have that.

    The wheels for Linux on x86-64 have. Those for ARM have not, nor have those for other
    systems and what some distributions build: each would say so, on stderr, in every command.
    """
    with contextlib.suppress(PackageNotFoundError):
        if _BUILT_WITH_IT.search(distribution("pyarrow").read_text("WHEEL") or ""):
            return _POOL
    return {}


def entry() -> NoReturn:
    """The process behind the `hushbeam` command."""
    gc.set_threshold(*_COLLECTED)
    sparing.begin()
    for name, value in memory_pool().items():
        os.environ.setdefault(name, value)  # before Arrow is imported
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


def _stop(number: int, _: object) -> NoReturn:
    """Interrupt; and remember it, for Beam may make another exception of it on its way."""
    STOPPED_BY.append(signal.Signals(number).name)
    STOPPED.set()
    raise KeyboardInterrupt


def parser_of(words: Sequence[str]) -> Parser:
    """A parser of a command line, which knows the options of the command that is typed there."""
    parser = Parser(
        prog="hushbeam",
        usage="%(prog)s [--version] [--debug] [--json] COMMAND ...",
        description="Publish what telemetry says about a population, and nothing about a person.",
    )
    parser.add_argument("--version", action="version", version=f"hushbeam {version('hushbeam')}")
    commands = parser.add_subparsers(
        metavar="COMMAND", help=argparse.SUPPRESS, parser_class=Parser, prog="hushbeam"
    )
    if [*words] == ["--version"]:  # a fact of the package: no command's options need be known
        return parser
    from pipelines.cli.commands import add_commands, listed

    word = _typed_command(words)
    add_commands(commands, word)
    if word is None:
        parser.epilog = listed()
    for part in _parts(parser):
        part.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS,
            help="show Beam's log and tracebacks",
        )  # fmt: skip
        part.add_argument(
            answers.FLAG, action="store_true", default=argparse.SUPPRESS,
            help="for programs: one JSON object on the standard output, and nothing else there",
        )  # fmt: skip
    return parser


def _typed_command(words: Sequence[str]) -> str | None:
    """The word that stands where a command does."""
    return next((word for word in words if not word.startswith("-")), None)


@contextlib.contextmanager
def _cautioning() -> Iterator[None]:
    """Show a `Caution` as a line of ours, also while everybody else has to be silent."""
    others = warnings.showwarning
    with warnings.catch_warnings(), open(os.dup(2), "w") as stderr:

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, Caution):
                kind = "" if issubclass(category, Notice) else "warning: "
                _complain(f"{kind}{message}", stderr)
                if kind:
                    answers.add("warnings", str(message))
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


def _complain(text: str, stream: TextIO | None = None) -> str:
    """Show a text in one line, and return that."""
    line = " ".join(text.split())
    print(f"hushbeam: {line}", file=stream or sys.stderr, flush=True)
    return line


if __name__ == "__main__":
    entry()
