"""`hushbeam evaluate mean` on the command line."""

from __future__ import annotations

from typing import Any

from mechanisms import catalog
from pipelines.evaluate.arguments import (
    add_data,
    add_deltas,
    add_losses,
    add_ns,
    add_run,
    add_systems,
    evaluation,
)

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
"""

_RESULT = """
what comes out: results.parquet, refused.json, and absolute_error-*.png and squared_error-*.png
against everything of which there is more than one (the line is the mean over repetitions, the band
two standard errors of it either way; also as .svg), the journal to go on from, and with --attack
attack-*.png, attack-guesses.parquet and attack-delta.parquet.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate mean`."""
    names = list(catalog.of_task("mean"))
    systems = ", ".join(names[:9]) + ",\n  " + ", ".join(names[9:])
    more = _MORE.format(systems=systems, published=", ".join(catalog.published("mean")))
    brief = "errors of means, and what one report gives away"
    parser = evaluation(kinds, "mean", brief, _DESCRIPTION, more, _RESULT)
    add_systems(parser, "names of systems or of sets of them")
    add_losses(parser, "one report")
    add_deltas(parser, "one report, for systems that spend any")
    add_data(parser)
    add_ns(parser)
    parser.add_argument(
        "--alphas", nargs="+", default=["5"], metavar="A",
        help="DCT's parameter; best is the one of least worst-case variance, for dct alone "
        "(default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--attack", action="store_true",
        help="also guess users' values from single simulated reports, and measure delta",
    )  # fmt: skip
    add_run(parser)
