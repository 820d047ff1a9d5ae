"""`hushbeam evaluate train` on the command line."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

_STUDIES = {"regression": "train_regression", "dp-sgd": "train_digits", "dssgd": "train_dssgd"}

_DESCRIPTION = """\
How good models get that are trained with privacy, over repeated simulated runs: linear regression
on locally private gradients, DP-SGD by a curator, and selective SGD by many participants.
"""

_MORE = """\
--study regression: squared errors of five-fold cross-validation, --repetitions times over
  systems: default (what `hushbeam train` takes), optimal, duchi, pm, hm, dct,
           dct_published (which is not private), and beside them no_noise (the same steps on exact
           gradients), least_squares and constant (the mean of the targets)
           paper: all that a paper compares; all: all of them
  data:    census:N, made; or FILE.parquet, FILE.parquet:N of a table whose columns are declared:
           adult, credit_default, fertility_us1980, ipums_br2000, ipums_us1980,
           wisdm2019_phone_accel
  All systems have the same folds, groups, coordinates and random numbers, so that only the
  mechanisms differ, and the same steps, unless --own-schedules plans each for its own noise.

--study dp-sgd: accuracy on the last fifth of images against epsilon, at --deltas
  systems: softmax, perceptron, edges (softmax of hand-made features)
  data:    digits:N, made; or FILE.parquet of mnist10k

--study dssgd: accuracy against theta_u (--shares), for each number of --participants
  systems: largest, random, alone, centralised; noisy: random places with Laplace noise of --noise
           epsilon for each value that is uploaded
  data:    as for dp-sgd

examples:
  hushbeam evaluate train --study regression --epsilons 0.5 1 2 4 --data DATA/adult.parquet \\
      DATA/ipums_us1980.parquet --output regression
  hushbeam evaluate train --study regression --epsilons 1 --data census:1e4 --ns 1e4 1e5 1e6 \\
      --repetitions 2 --output regression-n
  hushbeam evaluate train --study dp-sgd --epsilons 1 2 4 8 --deltas 1e-5 --data digits:4000 \\
      --repetitions 3 --output dp-sgd
  hushbeam evaluate train --study dssgd --shares 0.01 0.1 1 --participants 30 90 \\
      --data digits:4000 --repetitions 2 --output dssgd

An evaluation that was killed goes on where it stopped when the same command starts it again.

what comes out: results.parquet, refused.json, figures as .png and .svg (the line is the mean, the
band two standard errors of it either way), the journal to go on from, and of regression
differences.parquet: by how much each system's errors differ from the default's on the same folds.
exit codes: 0 done; 2 the request or its data are wrong; 3 the run failed or was interrupted.
"""


def add_to(kinds: Any) -> None:
    """Add `hushbeam evaluate train`."""
    parser = kinds.add_parser(
        "train",
        help="how good private models get",
        description=_DESCRIPTION,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--study", required=True, choices=_STUDIES, help="what is compared")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="see below")
    parser.add_argument(
        "--epsilons", nargs="+", metavar="E", help="privacy losses of a run; not of dssgd"
    )
    parser.add_argument(
        "--deltas", nargs="+", metavar="D", help="of dp-sgd (default: 1e-5) and dssgd's noise"
    )
    parser.add_argument("--data", nargs="+", metavar="DATA", help="see below (default: made)")
    parser.add_argument(
        "--ns", nargs="+", metavar="N", help="of regression: numbers of rows, in place of --data's"
    )
    parser.add_argument(
        "--own-schedules", action="store_true", default=None,
        help="of regression: plan each mechanism's steps for its own noise",
    )  # fmt: skip
    parser.add_argument(
        "--clip", metavar="C",
        help="of regression: where coordinates of gradients are cut (default: each run's opening "
        "chooses; 0.5 is what it starts from)",
    )  # fmt: skip
    parser.add_argument(
        "--draws", metavar="N",
        help="of regression: runs with other noise that each fold's error is the mean of "
        "(default: 1)",
    )  # fmt: skip
    parser.add_argument("--shares", nargs="+", metavar="U", help="of dssgd: theta_u")
    parser.add_argument("--participants", nargs="+", metavar="N", help="of dssgd (default: 30 90)")
    parser.add_argument("--epochs", metavar="N", help="of dssgd, of each participant (default: 10)")
    parser.add_argument(
        "--noise", metavar="E", help="of dssgd: epsilon for each value uploaded by noisy"
    )
    parser.add_argument(
        "--repetitions", metavar="N",
        help="of each setting (default: 5 of regression, which makes 25 runs, else 3)",
    )  # fmt: skip
    parser.add_argument("--seed", default="0", help="of the simulations (default: %(default)s)")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="a local folder, new or begun"
    )
    parser.add_argument(
        "--jobs", metavar="N", help="processes (default: as many as there are cores)"
    )
    parser.set_defaults(command=_train)


def _train(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Compare ways to train."""
    # matplotlib and pyarrow take a second to import; other commands need not wait.
    from pipelines.requests import no_more

    no_more(beam_arguments)
    asked = {k: v for k, v in vars(arguments).items() if k not in ("command", "study")}
    study = import_module(f"pipelines.evaluate.{_STUDIES[arguments.study]}")
    return int(study.run(asked))
