"""`hushbeam train` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from mechanisms.catalog import of_task
from pipelines.arguments import add_input, add_output, add_users, asked, command
from pipelines.attribute_arguments import add_attributes
from pipelines.train.options import LOSSES, METHODS

_MORE = """\
methods:
  local     every user computes the gradient of the own row once, randomises it and sends it; nobody
            needs to be trusted (--model local), or a shuffler (--model shuffle)
  dp-sgd    a curator holds all rows, clips gradients and adds noise to their sums
  dssgd     participants hold rows of their own and exchange some of what they learn, with noise

examples:
  hushbeam train --input 'census/*.parquet' --number age=0,100 --number 'f*=-1,1' \\
      --category city=cities.txt --target income=0,200000 --epsilon 1 --model local --output model
  hushbeam train --input 'images/*.parquet' --vector pixels=784:0,255 --target label=0..9 \\
      --loss perceptron --method dp-sgd --epsilon 8 --delta 1e-5 --output digits
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = command(
        commands,
        "train",
        brief="a model fitted to rows that nobody sees",
        description="Fit a model to rows that nobody sees, and publish it with its guarantee.",
        more=_MORE,
        withheld="too few users",
        failed=", or diverged",
    )
    _add_model(parser.add_argument_group("what is learnt, and from what"))
    _add_privacy(parser.add_argument_group("what is promised"))
    _add_local(parser.add_argument_group("--method local"))
    _add_curator(parser.add_argument_group("--method dp-sgd"))
    _add_participants(parser.add_argument_group("--method dssgd"))
    result = parser.add_argument_group("what comes out")
    files = "model.json, model.joblib, curve.parquet, statement.json, report.html"
    add_output(result, files)
    result.add_argument(
        "--validation", nargs="+", metavar="FILE",
        help="Parquet files of public rows with the same columns: how well the model does on them "
        "is published as it is, after every step",
    )  # fmt: skip
    parser.set_defaults(command=run)


def _add_model(group: Any) -> None:
    add_input(group)
    add_attributes(group)
    group.add_argument(
        "--target", required=True, metavar="COLUMN=SPEC",
        help="what the model tells: a number with its bounds (income=0,200000), or a class with "
        "all that it can be: a range (label=0..9), a list (sex=m,f) or a text file with one a line",
    )  # fmt: skip
    add_users(group, "row")
    group.add_argument(
        "--loss", choices=LOSSES, default="linear",
        help="linear and ridge tell numbers, logistic and svm classes, perceptron either (default: "
        "%(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--penalty", metavar="L",
        help="lambda of the penalty lambda/2 |weights|^2 (default: 0.001 for ridge, else 0)",
    )  # fmt: skip
    group.add_argument("--hidden", metavar="N", help="units of the perceptron (default: 32)")
    group.add_argument(
        "--learning-rate", metavar="R", help="the size of steps (default: from what is declared)"
    )
    group.add_argument(
        "--clip", metavar="C",
        help="where gradients are cut: local, each coordinate of them (default: 0.5, or what the "
        "spread of the targets calls for, which the users of an opening report; a number overrules "
        "it, and there is no opening); dp-sgd, their length (default: 1)",
    )  # fmt: skip


def _add_privacy(group: Any) -> None:
    group.add_argument(
        "--method", choices=METHODS, default="local", help="see below (default: %(default)s)"
    )
    group.add_argument(
        "--epsilon", help="the privacy loss of the release; 1 is a common choice, less is safer"
    )
    group.add_argument(
        "--delta",
        help="the probability that epsilon may fail (default: local 0, else 1e-6)",
    )
    group.add_argument(
        "--min-reports", metavar="N",
        help="local: skip a step with fewer users (default: in the shuffle model what groups "
        "surely have). Else: withhold a release of fewer, and lay the run out for N (default: the "
        "number of rows; with --user-column name one near the number of users)",
    )  # fmt: skip


def _add_local(group: Any) -> None:
    group.add_argument(
        "--model", choices=("local", "shuffle"),
        help="local: every report alone is epsilon-private. shuffle: each step's batch is "
        "(epsilon, delta)-private, at a smaller error (default: shuffle)",
    )  # fmt: skip
    group.add_argument(
        "--epsilon-local", metavar="E", help="shuffle model: the most that one report may reveal"
    )
    group.add_argument(
        "--steps", metavar="N",
        help="of gradient descent, each by users of its own (default: as many as noise allows)",
    )  # fmt: skip
    group.add_argument(
        "--mechanism", metavar="NAME",
        help="auto takes the one with the least error (default: auto); or one of: "
        f"{', '.join(name for name, one in of_task('vector').items() if not one.biased)}",
    )  # fmt: skip
    group.add_argument(
        "--hold-back", metavar="SHARE",
        help="so many users train nothing and tell privately how wrong the model is, under the "
        "same promise: a learning curve with error bars",
    )  # fmt: skip


def _add_curator(group: Any) -> None:
    group.add_argument(
        "--lot", metavar="N", help="rows of a step, on average (default: a quarter of all)"
    )
    group.add_argument(
        "--epochs", metavar="N", help="how often each row is seen, on average (default: 25)"
    )


def _add_participants(group: Any) -> None:
    group.add_argument(
        "--participants", metavar="N", help="among whom rows are dealt out (default: 30)"
    )
    group.add_argument(
        "--upload-share", metavar="S", help="of the parameters that are uploaded (default: 0.1)"
    )
    group.add_argument(
        "--download-share", metavar="S", help="of the parameters that are fetched (default: 1)"
    )
    group.add_argument(
        "--selection", choices=("largest", "random"),
        help="which are uploaded: those found large under noise, or any (default: random, for the "
        "choice costs privacy too)",
    )  # fmt: skip
    group.add_argument(
        "--exchange", choices=("round-robin", "random", "asynchronous"),
        help="in which order participants exchange (default: round-robin)",
    )  # fmt: skip
    group.add_argument(
        "--bound", metavar="G", help="gamma: what is uploaded is cut to it (default: 0.001)"
    )
    group.add_argument(
        "--threshold", metavar="T", help="tau: what a large change exceeds (default: 0.0001)"
    )


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Train a model, publish it and say how well it does."""
    # Beam takes a second to import, and warns while it does: other commands need not wait, and
    # by now logs are silent.
    from pipelines.train.run import run as publish

    return publish(asked(arguments), beam_arguments)
