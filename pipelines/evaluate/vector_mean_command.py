"""`hushbeam evaluate vector-mean` on the command line."""

from __future__ import annotations

from typing import Any

from mechanisms import catalog
from pipelines.evaluate.arguments import (
    add_data,
    add_losses,
    add_ns,
    add_run,
    add_systems,
    evaluation,
)

_DESCRIPTION = """\
Errors of estimated rows of means, mechanism by mechanism, over repeated simulated releases in the
local model, beside what is predicted: a tidy table, figures, and what could not be served and why.
"""

_MORE = """\
systems:
  {systems}
  NAME-zero, NAME-mean   the same, moved by James and Stein's estimator towards 0, or towards the
                   mean of all coordinates
  NAME-share       the same times q/d, the share that a projection on q = 0.3 d dimensions keeps
  multi_rphm-debiased   multi_rphm divided by q/d
  projection       multi_rphm without noise: no privacy
  zeros            zeros for everybody: no data
  paper: multi_hm, multi_rphm, projection and meanest
  shrinkage: multi_hm-share, -zero and -mean, multi_optimal, -zero and -mean, and zeros

  privunit takes rows of length 1.1 sqrt(d e2), e2 being the mean square of the data, as if that
  were public; longer ones are cut off and counted. It simulates some 1,000 to 3,000 rows a second.

data:
  gauss:N,D,MEAN,SD        N rows of D normal numbers, clipped to [-1, 1]
  gauss:N,D,MEAN,SD,APART  their means differ by a standard deviation of APART
  FILE.parquet:COLUMN=L,U:COLUMN=L,U...   a row a user; each column is clipped to [L, U], which is
                   taken to [-1, 1], and may hold lists of numbers or bytes of one length

examples:
  hushbeam evaluate vector-mean --systems paper shrinkage --epsilons 1 \\
      --data gauss:10000,400,0.33333333,0.25 --dimensions 200 300 400 500 600 --output dimensions
  hushbeam evaluate vector-mean --systems multi_hm multi_rphm multi_hm-zero --epsilons 1 \\
      --data gauss:10000,200,0.33333333,0.25 --ns 5000 10000 20000 --output crossing
  hushbeam evaluate vector-mean --systems multi_hm multi_optimal meanest privunit --epsilons 1 2 \\
      --data examples/flights.parquet:distance=0,5000:departure_delay=-60,180 --output flights
"""

_RESULT = """
what comes out: results.parquet, refused.json, and squared_error-*.png against everything of which
there is more than one (the line is the mean over repetitions, the band two standard errors of it
either way, dotted is what was predicted; also as .svg), the journal to go on from; and if multi_hm
and multi_rphm were measured for several --ns, crossings.json: from how many users on the first is
better, as predicted and as measured.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate vector-mean`."""
    more = _MORE.format(systems=", ".join(catalog.of_task("vector")))
    brief = "errors of many means at once, predicted and measured"
    parser = evaluation(kinds, "vector-mean", brief, _DESCRIPTION, more, _RESULT)
    add_systems(parser, "names of systems or of sets of them")
    add_losses(parser, "one report")
    add_data(parser)
    add_ns(parser)
    parser.add_argument(
        "--dimensions", nargs="+", metavar="D",
        help="numbers of each user, in place of those of made rows in --data",
    )  # fmt: skip
    add_run(parser, ", each under a public seed of its own")
