"""`hushbeam evaluate histogram` on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mechanisms import systems
from pipelines.evaluate.arguments import (
    add_data,
    add_deltas,
    add_losses,
    add_run,
    add_systems,
    evaluation,
)

_DESCRIPTION = """\
Mean squared error of histograms, system by system, over repeated simulated releases: a tidy table,
figures, and what could not be served and why.
"""

_MORE = """\
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
"""

_RESULT = """
what comes out: results.parquet, refused.json, mse-*.png and .svg (the line is the mean, the band
reaches from the 10 % to the 90 % quantile over repetitions), and the journal to go on from.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate histogram`."""
    more = _MORE.format(systems=_wrapped(systems.SYSTEMS), paper=", ".join(systems.PAPER))
    parser = evaluation(kinds, "histogram", "errors of histograms", _DESCRIPTION, more, _RESULT)
    add_systems(parser, "names of systems, paper, all or best")
    parser.add_argument(
        "--bound", choices=("exact", "published", "both"), default="exact",
        help="of systems that name none: the exact accountant; the closed form of their paper, if "
        "it has one; or both (default: %(default)s)",
    )  # fmt: skip
    add_losses(parser, "the release")
    add_deltas(parser, "the shuffle model")
    add_data(parser)
    add_run(parser)
    parser.add_argument(
        "--max-messages", default="1", metavar="M",
        help="messages a user may send on average, for systems that can choose; 1 leaves it to "
        "them (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--honest-share", default="0.9", metavar="SHARE",
        help="of the users, whose dummies a guarantee counts on (default: %(default)s)",
    )  # fmt: skip


def _wrapped(names: Iterable[str], width: int = 96) -> str:
    """Names in lines of a help text."""
    lines = [""]
    for name in names:
        longer = f"{lines[-1]} {name}".strip()
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(name)
    return "\n  ".join(lines)
