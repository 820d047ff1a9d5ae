"""`hushbeam size`: which mechanism to use and what it will cost, before any data is touched."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field
from rich.console import Console
from rich.table import Table

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.histograms import error_after_projection, zipf
from mechanisms.planner.search import Design, designs, least_epsilon, least_reports
from mechanisms.targets.rules import MODELS, Target
from pipelines.errors import DONE, RequestError
from pipelines.request import answers
from pipelines.request.requests import Whole, no_more, request
from pipelines.size import question, rows
from pipelines.size.counts import instead
from pipelines.size.request import SizeRequest, absence, designs_table, facts, losses, promise
from pipelines.wording import upward

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
  hushbeam size --epsilon 1 --releases 4,28                           active users, day after day

Errors of a histogram are standard errors of a value's share of the reports: 1e-4 is a hundredth of
a percent. Those of rows are mean squared errors of a coordinate that is scaled to [-1, 1].
"""


class SizeOptions(SizeRequest):
    """A request to size a histogram."""

    domain_size: Whole = Field(ge=2, le=1 << 28)
    max_messages: float = Field(1.0, ge=1)
    for_error: float | None = Field(None, gt=0, lt=1)
    zipf: float = Field(1.1, ge=0, le=10)


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("size", description=__doc__, epilog=_EXAMPLE)
    parser.add_argument("--model", choices=MODELS, default="shuffle")
    parser.add_argument("--epsilon", help="the privacy loss of the release")
    parser.add_argument("--delta", help="shuffle model (default: 1e-6, less from 10^6 reports)")
    parser.add_argument(
        "--reports", "--users", metavar="N", help="how many reports to expect at the least"
    )
    parser.add_argument("--epsilon-local", metavar="E", help="the most that one report may reveal")
    parser.add_argument(
        "--honest-share", metavar="H",
        help="shuffle model: the share of the users who follow the protocol, 1 where one job draws "
        "for all of them; the promise counts on no others (default: 0.9)",
    )  # fmt: skip
    _add_histogram(parser.add_argument_group("histograms of values"))
    rows.add_to(parser)
    question.add_to(parser)
    parser.set_defaults(command=run)


def _add_histogram(parser: Any) -> None:
    """Add the options that histograms have alone."""
    parser.add_argument("--domain-size", metavar="D", help="how many values")
    parser.add_argument(
        "--max-messages", metavar="M",
        help="how many messages a user may send on average (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--for-error", metavar="E",
        help="turn it round: the least epsilon (given --reports) or the fewest reports (given "
        "--epsilon) with this standard error",
    )  # fmt: skip
    parser.add_argument(
        "--zipf", metavar="S", help="exponent of the guess for the error after POP (default: 1.1)"
    )


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Print the comparison."""
    no_more(beam_arguments)
    typed = {k: v for k, v in vars(arguments).items() if k != "command"}
    if (kind := question.question_of(typed)) is not None:
        return question.run(kind, typed)
    typed = {name: given for name, given in typed.items() if name not in question.own()}
    if typed["dimension"] is not None:
        return rows.run(typed)
    _require_histogram(typed)
    options = request(SizeOptions, {k: typed[k] for k in SizeOptions.model_fields})
    screen = Console()
    try:
        target = _target(options)
        if options.for_error is not None:
            target = _turned_round(options, target, screen)
        compared = sorted(designs(target), key=lambda design: design.published_error)
    except ValueError as error:
        raise RequestError(str(error)) from None
    screen.print(_table(compared, options))
    promise(screen, compared[0])
    absence(screen, compared[0], FrequencyTask(options.domain_size + 1, options.max_messages))
    if target.model == "shuffle":
        released = compared[0].release
        terms = options.domain_size, target.n, released.epsilon, released.delta
        for line in instead(*terms):
            answers.add("instead", line)
            screen.print(line, highlight=False)
    return DONE


def _require_histogram(typed: Mapping[str, Any]) -> None:
    """Refuse what means something for rows of numbers only."""
    for name, given in typed.items():
        if name not in SizeOptions.model_fields and given is not None:
            raise RequestError(f"--{name.replace('_', '-')} needs --dimension: it is for rows")
    if typed["domain_size"] is None:
        raise RequestError(
            "--domain-size or --dimension is missing: say how many values there are, or how many "
            "numbers a row has"
        )


def _table(compared: list[Design[FrequencyOracle]], options: SizeOptions) -> Table:
    """A row for each design, best first."""
    target, size = compared[0].target, options.domain_size
    guess = zipf(size, options.zipf)
    table = designs_table(
        f"{target.n:,} reports, {size:,} values",
        "error: standard error of a value's share of the reports; POP: the same after "
        f"projection, if shares follow Zipf({options.zipf:g}); p: symbols of a hash; sent: "
        "messages of a user, on average; local and release: epsilon",
        ("p", "error", "POP", "bits", "sent", "local", "release"),
    )
    for place, design in enumerate(compared):
        p = design.mechanism.constants().get("hash_range")
        error, pop = math.sqrt(design.error), math.sqrt(error_after_projection(design, guess))
        answers.add("rows", facts(design, p=p, error=error, pop=pop))
        table.add_row(
            "" if place else "best",
            design.name,
            "" if p is None else f"{p:,}",
            f"{error:.2e}",
            f"{pop:.2e}",
            str(design.bits),
            f"{design.messages:.4g}",
            *losses(design),
        )
    return table


def _target(options: SizeOptions) -> Target[FrequencyTask]:
    """The question as the planner takes it; what is being looked for gets a stand-in."""
    looked_for = options.for_error is not None
    terms = options.terms(2 if looked_for and options.epsilon is not None else None)
    if looked_for and options.epsilon is None:
        terms["epsilon"] = 1.0
    if terms["epsilon"] is None and options.epsilon_local is None:
        raise RequestError("--epsilon is missing: name the privacy loss that you accept")
    return Target(**terms, task=FrequencyTask(options.domain_size, options.max_messages))


def _turned_round(
    options: SizeOptions, target: Target[FrequencyTask], screen: Console
) -> Target[FrequencyTask]:
    """The target that just reaches an error."""
    error = options.for_error or 0.0
    if (options.epsilon is None) == (options.reports is None):
        raise RequestError("--for-error needs either --epsilon or --reports, and finds the other")
    if options.epsilon is None:
        epsilon = least_epsilon(target, error).release.epsilon
        answers.tell(least_epsilon=epsilon)
        said = f"least epsilon for a standard error of {error:g}: {upward(epsilon, 4):g}"
        target = replace(target, epsilon=epsilon)
    else:
        target = replace(target, n=least_reports(target, error).target.n)
        answers.tell(fewest_reports=target.n)
        said = f"fewest reports for a standard error of {error:g}: {target.n:,}"
    screen.print(said, highlight=False)
    return target
