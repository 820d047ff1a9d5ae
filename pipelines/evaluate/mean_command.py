"""`hushbeam evaluate mean` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from mechanisms import catalog

_DESCRIPTION = """\
Errors of estimated means, mechanism by mechanism, over repeated simulated releases, beside what one
report guarantees in truth: a tidy table, figures, and what could not be served and why.
"""

_MORE = """\
systems:
  {systems}
  nm-em, nm-ems: expectation maximisation over nm's reports, without and with smoothing; biased
  {published}: as their papers have them, whose claims do not hold
  all: all but these two
  dct-paper: duchi, pm, dct_published and dct, as the paper of DCT compares them
  im-paper: gaussian, gaussian_analytic, ndm, im_published, im, nm and nm-em, as that of IM does

data, clipped to [-1, 1]:
  gauss:N,MEAN,SD   exponential:N,RATE   uniform:N   beta:N,A,B   spike:N,X
                   N users who hold the quantiles of a law; beta is stretched to [-1, 1], in a spike
                   all hold X
  FILE.parquet:COLUMN,L,U   a row a user, clipped to [L, U], which is taken to [-1, 1]

examples:
  hushbeam evaluate mean --systems dct-paper optimal --epsilons 0.5 1 2 4 \\
      --data gauss:100000,0,0.25 examples/flights.parquet:distance,0,5000 --output dct
  hushbeam evaluate mean --systems im-paper --epsilons 1 --deltas 1e-8 1e-6 1e-4 1e-2 \\
      --data beta:100000,2,5 --ns 1000 10000 100000 --output im
  hushbeam evaluate mean --systems dct_published dct duchi --epsilons 1 --data uniform:10000 \\
      --alphas 2 5 10 --attack --output attack

An evaluation that was killed goes on where it stopped when it is started again by the same command.
Every repetition has a seed of its own, so results do not depend on --jobs, nor on interruptions.

what comes out: results.parquet, refused.json, and absolute_error-*.png and squared_error-*.png
against everything of which there is more than one (the line is the mean over repetitions, the band
two standard errors of it either way; also as .svg), the journal to go on from, and with --attack
attack-*.png, attack-guesses.parquet and attack-delta.parquet.
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate mean`."""
    names = list(catalog.MEAN)
    systems = ", ".join(names[:9]) + ",\n  " + ", ".join(names[9:])
    parser = kinds.add_parser(
        "mean",
        help="errors of means, and what one report gives away",
        description=_DESCRIPTION,
        epilog=_MORE.format(systems=systems, published=", ".join(catalog.PUBLISHED)),
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
        "--deltas", nargs="+", default=["1e-6"], metavar="D",
        help="of one report, for systems that spend any (default: 1e-6)",
    )  # fmt: skip
    parser.add_argument(
        "--data", nargs="+", required=True, metavar="DATA", help="populations; see below"
    )
    parser.add_argument(
        "--ns", nargs="+", metavar="N",
        help="numbers of users, in place of those in --data; of a file, as many rows are chosen, "
        "always the same ones",
    )  # fmt: skip
    parser.add_argument(
        "--alphas", nargs="+", default=["5"], metavar="A",
        help="DCT's parameter; best is the one of least worst-case variance, for dct alone "
        "(default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--repetitions", default="10", metavar="N",
        help="simulated releases of each setting (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", default="0", help="of the simulations (default: %(default)s)")
    parser.add_argument(
        "--attack", action="store_true",
        help="also guess users' values from single simulated reports, and measure delta",
    )  # fmt: skip
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="a local folder, new or begun"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="processes (default: as many as there are cores)"
    )
    parser.set_defaults(command=_mean)


def _mean(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Compare mechanisms for means."""
    # matplotlib and pyarrow take a second to import; other commands need not wait.
    from pipelines.evaluate import mean as evaluate_mean
    from pipelines.requests import no_more

    no_more(beam_arguments)
    return evaluate_mean.run({k: v for k, v in vars(arguments).items() if k != "command"})
