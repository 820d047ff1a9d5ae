"""`hushbeam size`: which mechanism to use and what it will cost, before any data is touched."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from pipelines.errors import DONE
from pipelines.request.commands import deferred
from pipelines.size.designs import DesignQuestion, HistogramQuestion, RowsQuestion
from pipelines.size.question import PlannerQuestion, planned, question_of
from pipelines.size.question import add_to as add_options

_EXAMPLE = """\
examples:
  hushbeam size --epsilon 0.5 --reports 602325 --domain-size 915
  hushbeam size --epsilon 0.5 --reports 602325 --domain-size 915 --max-messages 3
  hushbeam size --model local --epsilon 1 --reports 1e6 --domain-size 42178
  hushbeam size --reports 1e6 --domain-size 1000 --for-error 1e-4     the least epsilon
  hushbeam size --epsilon 1 --domain-size 1000 --for-error 1e-4       the fewest reports
  hushbeam size --model local --epsilon 1 --reports 1e4 --dimension 400 \\
      --mean-square 0.11 --second-moment 0.17 --spread 0             means of rows of numbers
  hushbeam size --epsilon 1 --counts 915                              counts of users and events
  hushbeam size --epsilon 1 --strings                                 from how many users on
  hushbeam size --epsilon 1 --bounds 0,3600 --reports 1e6             a sum and a mean
  hushbeam size --epsilon 1 --tables 3,16,100                         a cross-tab of three columns
  hushbeam size --model local --epsilon 1 --reports 1e6 --tables 3,16,100    the same, locally
  hushbeam size --epsilon 1 --averages 400 --reports 1e6              average rows over counters
  hushbeam size --epsilon 1 --experiment 1e5 --lift 5 --per-day 2000   effects, users and days
  hushbeam size --epsilon 1 --releases 4,28                           active users, day after day

Errors of a histogram are standard errors of a value's share of the reports: 1e-4 is a hundredth of
a percent. Those of rows are mean squared errors of a coordinate that is scaled to [-1, 1].
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("size", description=__doc__, epilog=_EXAMPLE)
    add_options(
        parser, DesignQuestion, [HistogramQuestion, RowsQuestion, PlannerQuestion, *planned()]
    )
    parser.set_defaults(command=deferred(run))


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison."""
    typed = {name: given for name, given in vars(arguments).items() if name != "command"}
    questions = [*planned(), RowsQuestion, HistogramQuestion]
    question_of(typed, DesignQuestion, questions).answer(Console())
    return DONE
