"""The options on the command line that evaluations share."""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from typing import Any

from pipelines.arguments import typed

_RESUMED = """
An evaluation that was killed goes on where it stopped when it is started again by the same command.
Every repetition has a seed of its own, so results do not depend on --jobs, nor on interruptions.
"""

_CODES = """\
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""


def evaluation(
    kinds: Any, name: str, brief: str, description: str, more: str, result: str
) -> argparse.ArgumentParser:
    """A command that compares systems; it ends in `run` of the module of its name.

    Args:
        kinds: where it is added.
        name: as it is typed.
        brief: for the list of evaluations.
        description: for its own page.
        more: systems, data and examples, at the end of the page.
        result: what comes out.
    """
    parser: argparse.ArgumentParser = kinds.add_parser(
        name,
        help=brief,
        description=description,
        epilog=more + _RESUMED + result + _CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=partial(_run, name.replace("-", "_")))
    return parser


def _run(name: str, arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Evaluate."""
    # matplotlib and pyarrow take a second to import; other commands need not wait.
    from pipelines.requests import no_more

    no_more(beam_arguments)
    return int(import_module(f"pipelines.evaluate.{name}").run(typed(arguments)))


def add_systems(parser: argparse.ArgumentParser, what: str, required: bool = True) -> None:
    """What is compared: --systems."""
    parser.add_argument(
        "--systems", nargs="+", required=required, metavar="NAME", help=f"{what}; see below"
    )


def add_losses(parser: argparse.ArgumentParser, of: str) -> None:
    """At what privacy: --epsilons.

    Args:
        parser: of the command.
        of: whose loss it is.
    """
    parser.add_argument(
        "--epsilons", nargs="+", required=True, metavar="E", help=f"privacy losses of {of}"
    )


def add_deltas(parser: argparse.ArgumentParser, of: str) -> None:
    """At what privacy: --deltas."""
    parser.add_argument(
        "--deltas", nargs="+", default=["1e-6"], metavar="D", help=f"of {of} (default: 1e-6)"
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """On what: --data."""
    parser.add_argument(
        "--data", nargs="+", required=True, metavar="DATA", help="populations; see below"
    )


def add_ns(parser: argparse.ArgumentParser) -> None:
    """On how much of it: --ns."""
    parser.add_argument(
        "--ns", nargs="+", metavar="N",
        help="numbers of users, in place of those in --data; of a file, as many rows are chosen, "
        "always the same ones",
    )  # fmt: skip


def add_run(parser: argparse.ArgumentParser, each: str = "") -> None:
    """How often, and where to: --repetitions, --seed, --output, --jobs.

    Args:
        parser: of the command.
        each: what else repetitions do not share.
    """
    parser.add_argument(
        "--repetitions", default="10", metavar="N",
        help=f"simulated releases of each setting{each} (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", default="0", help="of the simulations (default: %(default)s)")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="a local folder, new or begun"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="processes (default: as many as there are cores)"
    )
