"""`hushbeam evaluate` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from mechanisms import systems
from pipelines.evaluate import mean_command as evaluate_mean_command
from pipelines.evaluate import train_command as evaluate_train_command
from pipelines.evaluate import vector_mean_command as evaluate_vector_mean_command

_DESCRIPTION = """\
Compare systems side by side on simulated releases of populations whose truth is known. Nothing here
is a release: errors are measured against the true histogram, so that whoever may not see the data
may not see this folder either.
"""

_HISTOGRAM = """\
Mean squared error of histograms, system by system, over repeated simulated releases: a tidy table,
figures, and what could not be served and why.
"""

_HISTOGRAM_MORE = """\
systems:
  {systems}
  best: what `hushbeam plan` would choose, among systems of at most --max-messages
  all: all but best
  paper: those of HP-SDP's figures: {paper}

  NAME:published or NAME:exact picks the bound; NAME@local, NAME@shuffle or NAME@central the model,
  which otherwise is the shuffle model where a system serves it, else the only one that it serves.

data:
  normal:N,D       N values of a normal law in D equal bins over four standard deviations either way
  zipf:N,D,S       N values, the k-th most frequent of D in proportion to 1/k^S (S: 1.2)
  FILE.parquet:COLUMN   a row a user, and every value that occurs a value of the domain

examples:
  hushbeam evaluate histogram --systems paper:published poisson correlated sh \\
      --epsilons 0.1 0.2 0.5 1 --data normal:600000,600 zipf:600000,600,1.2 --output figures
  hushbeam evaluate histogram --systems grr@local olh@local oue@local --epsilons 0.5 1 2 4 \\
      --data examples/flights.parquet:destination --output local

An evaluation that was killed goes on where it stopped when it is started again by the same command.
Every repetition has a seed of its own, so results do not depend on --jobs, nor on interruptions.

what comes out: results.parquet, refused.json, mse-*.png and .svg (the line is the mean, the band
reaches from the 10 % to the 90 % quantile over repetitions), and the journal to go on from.
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""


_HEAVY_HITTERS = """\
Precision and recall of searches for frequent strings that nobody declared, over repeated simulated
searches, each under a public hash of its own.
"""

_HEAVY_HITTERS_MORE = """\
systems: pem and treehist, both unless named; NAME@local is in the local model, NAME in the shuffle
  model.

data:
  zipf:N,D,S       N users, D strings of 8 to 12 hexadecimal digits, the k-th most frequent one held
                   by a share in proportion to 1/k^S (S: 1.2)
  FILE.parquet:COLUMN   a row a user; text, or integers, which are taken as their digits

examples:
  hushbeam evaluate heavy-hitters --epsilons 1 2 4 --data zipf:1e6,1e5,1.1 --output strings
  hushbeam evaluate heavy-hitters --systems pem pem@local treehist@local --epsilons 2 4 8 \\
      --data examples/flights.parquet:destination --alphabet upper --max-length 3 --output airports

what comes out: results.parquet, refused.json, recall-*.png and precision-*.png (the line is the
mean, the band reaches from the 10 % to the 90 % quantile over repetitions; also as .svg), and the
journal to go on from.
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""


def add_to(commands: Any) -> None:
    """Add the command and what can be evaluated."""
    parser = commands.add_parser(
        "evaluate",
        help="compare systems on simulated releases whose truth is known",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds = parser.add_subparsers(
        title="what is evaluated", metavar="WHAT", required=True, parser_class=type(parser)
    )
    _add_histogram(kinds)
    _add_heavy_hitters(kinds)
    evaluate_mean_command.add_to(kinds)
    evaluate_train_command.add_to(kinds)
    evaluate_vector_mean_command.add_to(kinds)
    for each in kinds.choices.values():
        each.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks"
        )


def _add_histogram(kinds: Any) -> None:
    """`hushbeam evaluate histogram`."""
    more = _HISTOGRAM_MORE.format(systems=_wrapped(systems.SYSTEMS), paper=", ".join(systems.PAPER))
    parser = kinds.add_parser(
        "histogram",
        help="errors of histograms",
        description=_HISTOGRAM,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--systems", nargs="+", required=True, metavar="NAME",
        help="names of systems, paper, all or best; see below",
    )  # fmt: skip
    parser.add_argument(
        "--bound", choices=("exact", "published", "both"), default="exact",
        help="of systems that name none: the exact accountant; the closed form of their paper, if "
        "it has one; or both (default: %(default)s)",
    )  # fmt: skip
    _add_common(parser)
    parser.add_argument(
        "--max-messages", default="1", metavar="M",
        help="messages a user may send on average, for systems that can choose; 1 leaves it to "
        "them (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--honest-share", default="0.9", metavar="SHARE",
        help="of the users, whose dummies a guarantee counts on (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(command=_histogram)


def _add_heavy_hitters(kinds: Any) -> None:
    """`hushbeam evaluate heavy-hitters`."""
    parser = kinds.add_parser(
        "heavy-hitters",
        help="what searches for undeclared strings find",
        description=_HEAVY_HITTERS,
        epilog=_HEAVY_HITTERS_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="pem, treehist; see below")
    _add_common(parser)
    parser.add_argument(
        "--top",
        default="20",
        metavar="K",
        help="how many strings are wanted (default: %(default)s)",
    )
    parser.add_argument(
        "--alphabet", nargs="+", metavar="SET",
        help="as for `hushbeam heavy-hitters`; strings with other characters are left out "
        "(default: digits for integers, hexadecimal for made strings, else bytes)",
    )  # fmt: skip
    parser.add_argument(
        "--max-length", metavar="L",
        help="how many characters are looked at (default: 10 for integers, 12 for made strings, "
        "else 32)",
    )  # fmt: skip
    parser.add_argument(
        "--false-strings", default="0.01", metavar="F",
        help="how many strings that nobody holds may be found on average (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(command=_heavy_hitters)


def _add_common(parser: argparse.ArgumentParser) -> None:
    """What every evaluation asks."""
    parser.add_argument(
        "--epsilons", nargs="+", required=True, metavar="E", help="privacy losses of the release"
    )
    parser.add_argument(
        "--deltas", nargs="+", default=["1e-6"], metavar="D",
        help="of the shuffle model (default: 1e-6)",
    )  # fmt: skip
    parser.add_argument(
        "--data", nargs="+", required=True, metavar="DATA", help="populations; see below"
    )
    parser.add_argument(
        "--repetitions", default="10", metavar="N",
        help="simulated releases of each setting (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", default="0", help="of the simulations (default: %(default)s)")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="a local folder, new or begun"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="processes (default: as many as there are cores)"
    )


def _histogram(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Compare histogram systems."""
    # matplotlib and pyarrow take a second to import; other commands need not wait.
    from pipelines.evaluate import histogram as evaluate_histogram
    from pipelines.requests import no_more

    no_more(beam_arguments)
    return evaluate_histogram.run({k: v for k, v in vars(arguments).items() if k != "command"})


def _heavy_hitters(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Compare searches."""
    from pipelines.evaluate import heavy_hitters as evaluate_heavy_hitters
    from pipelines.requests import no_more

    no_more(beam_arguments)
    return evaluate_heavy_hitters.run({k: v for k, v in vars(arguments).items() if k != "command"})


def _wrapped(names: Any, width: int = 96) -> str:
    """Names in lines of a help text."""
    lines = [""]
    for name in names:
        longer = f"{lines[-1]} {name}".strip()
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(name)
    return "\n  ".join(lines)
