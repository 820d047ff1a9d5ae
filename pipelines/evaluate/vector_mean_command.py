"""`hushbeam evaluate vector-mean` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from mechanisms import catalog

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

An evaluation that was killed goes on where it stopped when it is started again by the same command.
Every repetition has a seed of its own, so results do not depend on --jobs, nor on interruptions.

what comes out: results.parquet, refused.json, and squared_error-*.png against everything of which
there is more than one (the line is the mean over repetitions, the band two standard errors of it
either way, dotted is what was predicted; also as .svg), the journal to go on from; and if multi_hm
and multi_rphm were measured for several --ns, crossings.json: from how many users on the first is
better, as predicted and as measured.
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate vector-mean`."""
    parser = kinds.add_parser(
        "vector-mean",
        help="errors of many means at once, predicted and measured",
        description=_DESCRIPTION,
        epilog=_MORE.format(systems=", ".join(catalog.VECTOR)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--systems", nargs="+", required=True, metavar="NAME",
        help="names of systems or of sets of them; see below",
    )  # fmt: skip
    parser.add_argument(
        "--epsilons", nargs="+", required=True, metavar="E", help="privacy losses of one report"
    )
    parser.add_argument(
        "--data", nargs="+", required=True, metavar="DATA", help="populations; see below"
    )
    parser.add_argument(
        "--ns", nargs="+", metavar="N",
        help="numbers of users, in place of those in --data; of a file, as many rows are chosen, "
        "always the same ones",
    )  # fmt: skip
    parser.add_argument(
        "--dimensions", nargs="+", metavar="D",
        help="numbers of each user, in place of those of made rows in --data",
    )  # fmt: skip
    parser.add_argument(
        "--repetitions", default="10", metavar="N",
        help="simulated releases of each setting, each under a public seed of its own "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", default="0", help="of the simulations (default: %(default)s)")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="a local folder, new or begun"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="processes (default: as many as there are cores)"
    )
    parser.set_defaults(command=_vector_mean)


def _vector_mean(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Compare mechanisms for rows."""
    # matplotlib and pyarrow take a second to import; other commands need not wait.
    from pipelines.evaluate import vector_mean as evaluate_vector_mean
    from pipelines.requests import no_more

    no_more(beam_arguments)
    return evaluate_vector_mean.run({k: v for k, v in vars(arguments).items() if k != "command"})
