"""`hushbeam evaluate heavy-hitters` on the command line."""

from __future__ import annotations

from typing import Any

from pipelines.evaluate.arguments import (
    add_data,
    add_deltas,
    add_losses,
    add_run,
    add_systems,
    evaluation,
)

_DESCRIPTION = """\
Precision and recall of searches for frequent strings that nobody declared, over repeated simulated
searches, each under a public hash of its own.
"""

_MORE = """\
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
"""

_RESULT = """
what comes out: results.parquet, refused.json, recall-*.png and precision-*.png (the line is the
mean, the band reaches from the 10 % to the 90 % quantile over repetitions; also as .svg), and the
journal to go on from.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate heavy-hitters`."""
    parser = evaluation(
        kinds,
        "heavy-hitters",
        "what searches for undeclared strings find",
        _DESCRIPTION,
        _MORE,
        _RESULT,
    )
    add_systems(parser, "pem, treehist", required=False)
    add_losses(parser, "the release")
    add_deltas(parser, "the shuffle model")
    add_data(parser)
    add_run(parser)
    parser.add_argument(
        "--top", default="20", metavar="K",
        help="how many strings are wanted (default: %(default)s)",
    )  # fmt: skip
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
