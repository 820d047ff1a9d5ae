"""The `hushbeam` command."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from pipelines.errors import RUN_FAILED, WITHHELD, WRONG_REQUEST, RequestError, WithheldError


class Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message} ({self.prog} --help tells more)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after `hushbeam`; those of this process by default.

    Returns:
        0 done; 1 withheld; 2 the request or its input is wrong; 3 the run failed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    _quiet(debug)
    try:
        parser = _parser()
        known, rest = parser.parse_known_args([word for word in arguments if word != "--debug"])
        if "command" not in known:
            parser.print_help()
            return WRONG_REQUEST
        return int(known.command(known, rest))
    except RequestError as error:
        _complain(str(error))
        return WRONG_REQUEST
    except WithheldError as error:
        _complain(f"withheld: {error}")
        return WITHHELD
    except KeyboardInterrupt:
        _complain("interrupted; nothing was published")
        return RUN_FAILED
    except Exception as error:
        if debug:
            raise
        # The text of a stranger's exception may quote the data, so only its type is shown.
        _complain(
            f"the run failed with {type(error).__name__}; nothing was published. "
            "--debug shows the traceback, which may quote the data: keep it private"
        )
        return RUN_FAILED


def _parser() -> Parser:
    parser = Parser(
        prog="hushbeam",
        allow_abbrev=False,
        description="Publish what telemetry says about a population, and nothing about a person.",
    )
    parser.add_argument("--version", action="version", version=f"hushbeam {version('hushbeam')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    # Imported here so that `hushbeam --version` and complaints do not wait for Beam.
    from pipelines import histogram_command

    histogram_command.add_to(commands)
    return parser


def _quiet(debug: bool) -> None:
    """Beam logs with its root logger, tracebacks included; they could quote the data."""
    logging.getLogger().setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        warnings.simplefilter("ignore")


def _complain(line: str) -> None:
    print(f"hushbeam: {' '.join(line.split())}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
