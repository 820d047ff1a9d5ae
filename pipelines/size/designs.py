"""`hushbeam size` of histograms and of rows: mechanisms compared for a privacy target."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from rich.console import Console
from rich.table import Table

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.histograms import error_after_projection, zipf
from mechanisms.planner.rows import Prediction, crossover, predict
from mechanisms.planner.search import Design, designs, least_epsilon, least_reports, search
from mechanisms.targets.rules import Target, Task
from mechanisms.vector.rows import LARGEST_DIMENSION
from mechanisms.vector.task import VectorTask
from pipelines.errors import RequestError
from pipelines.metrics.options import CLIENTS_SHARE
from pipelines.metrics.terms import target_terms
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.request.requests import Whole
from pipelines.size.counters import instead
from pipelines.size.question import SizingQuestion, Users, empty
from pipelines.wording import one_line, upward

_ERRORS = ("error", "to_zero", "to_mean", "half_width")


class DesignQuestion(SizingQuestion):
    """A request to compare mechanisms."""

    model: Literal["local", "shuffle"] = option("who is trusted", "shuffle")
    epsilon: float | None = option("the privacy loss of the release", None, gt=0)
    delta: float | None = option(
        "shuffle model (default: 1e-6, less from 10^6 reports)", None, ge=0, lt=1
    )
    reports: Users | None = option("how many reports to expect at the least", None, metavar="N")
    epsilon_local: float | None = option(
        "the most that one report may reveal", None, metavar="E", gt=0
    )
    honest_share: float = option(
        "shuffle model: the share of the users who follow the protocol, 1 where one job draws for "
        "all of them; the promise counts on no others (default: 0.9)",
        CLIENTS_SHARE, metavar="H", gt=0, le=1,
    )  # fmt: skip

    def terms(self, reports: int | None = None) -> dict[str, Any]:
        """What targets have in common.

        Args:
            reports: a stand-in for a number that is being looked for.

        Raises:
            RequestError: it is not known how many to expect.
        """
        n = self.reports or reports
        if n is None:
            raise RequestError("--reports is missing: say how many reports to expect at the least")
        return target_terms(self, self.model, n, unit="user")


class HistogramQuestion(DesignQuestion):
    """Which mechanism counts values best."""

    asks: ClassVar[str] = "domain_size"
    title: ClassVar[str] = "histograms of values"

    domain_size: Whole = option("how many values", metavar="D", ge=2, le=1 << 28)
    max_messages: float = option(
        "how many messages a user may send on average (default: 1)", 1.0, metavar="M", ge=1
    )
    for_error: float | None = option(
        "turn it round: the least epsilon (given --reports) or the fewest reports (given "
        "--epsilon) with this standard error",
        None, metavar="E", gt=0, lt=1,
    )  # fmt: skip
    zipf: float = option(
        "exponent of the guess for the error after POP (default: 1.1)", 1.1, metavar="S", ge=0,
        le=10,
    )  # fmt: skip

    def answer(self, screen: Console) -> None:
        try:
            target = self._target()
            if self.for_error is not None:
                target = self._turned_round(target, self.for_error, screen)
            compared = sorted(designs(target), key=lambda design: design.published_error)
        except ValueError as error:
            raise RequestError(str(error)) from None
        screen.print(self._table(compared))
        _promise(screen, compared[0])
        _absence(screen, compared[0], FrequencyTask(self.domain_size + 1, self.max_messages))
        if target.model == "shuffle":
            released = compared[0].release
            for line in instead(self.domain_size, target.n, released.epsilon, released.delta):
                answers.add("instead", line)
                screen.print(line, highlight=False)

    def _target(self) -> Target[FrequencyTask]:
        """The question as the planner takes it; what is being looked for gets a stand-in."""
        looked_for = self.for_error is not None
        terms = self.terms(2 if looked_for and self.epsilon is not None else None)
        if looked_for and self.epsilon is None:
            terms["epsilon"] = 1.0
        if terms["epsilon"] is None and self.epsilon_local is None:
            raise RequestError("--epsilon is missing: name the privacy loss that you accept")
        return Target(**terms, task=FrequencyTask(self.domain_size, self.max_messages))

    def _turned_round(
        self, target: Target[FrequencyTask], error: float, screen: Console
    ) -> Target[FrequencyTask]:
        """The target that just reaches an error."""
        if (self.epsilon is None) == (self.reports is None):
            raise RequestError(
                "--for-error needs either --epsilon or --reports, and finds the other"
            )
        if self.epsilon is None:
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

    def _table(self, compared: list[Design[FrequencyOracle]]) -> Table:
        guess = zipf(self.domain_size, self.zipf)
        table = empty(
            f"{compared[0].target.n:,} reports, {self.domain_size:,} values",
            "error: standard error of a value's share of the reports; POP: the same after "
            f"projection, if shares follow Zipf({self.zipf:g}); p: symbols of a hash; sent: "
            "messages of a user, on average; local and release: epsilon",
            "", "mechanism", "p", "error", "POP", "bits", "sent", "local", "release",
            texts=2, padding=0,
        )  # fmt: skip
        for place, design in enumerate(compared):
            p = design.mechanism.constants().get("hash_range")
            error, pop = math.sqrt(design.error), math.sqrt(error_after_projection(design, guess))
            answers.add("rows", _facts(design, p=p, error=error, pop=pop))
            table.add_row(
                "" if place else "best", design.name, "" if p is None else f"{p:,}",
                f"{error:.2e}", f"{pop:.2e}", str(design.bits), f"{design.messages:.4g}",
                *_losses(design),
            )  # fmt: skip
        return table


class RowsQuestion(DesignQuestion):
    """What every mechanism for rows of numbers would err by; squares are of numbers in [-1, 1]."""

    asks: ClassVar[str] = "dimension"
    title: ClassVar[str] = "means of rows of numbers, each scaled to [-1, 1]"

    model: Literal["local", "shuffle"] = "shuffle"
    dimension: Whole = option("how many numbers a row has", metavar="D", ge=1, le=LARGEST_DIMENSION)
    radius: float | None = option("a length (l2 norm) that no row exceeds", None, metavar="R", gt=0)
    mean_square: float | None = option(
        "a guess: mean square of the coordinates' means (default: the second moment)",
        None, metavar="M", ge=0, le=1,
    )  # fmt: skip
    second_moment: float | None = option(
        "a guess: mean square of all numbers (default: the most there can be)",
        None, metavar="M", gt=0, le=1,
    )  # fmt: skip
    spread: float | None = option(
        "a guess: mean square of the means' distances from their own mean, 0 where all are alike "
        "(default: the mean square)",
        None, metavar="M", ge=0, le=1,
    )  # fmt: skip

    def answer(self, screen: Console) -> None:
        try:
            task = VectorTask(self.dimension, self.radius)
            target = Target(**self.terms(), task=task, seed=0)
            expected = predict(target, self.mean_square, self.second_moment, self.spread)
        except ValueError as error:
            raise RequestError(str(error)) from None
        made = [row.design for row in expected if row.design is not None]
        if not made:
            raise RequestError(
                "no mechanism for rows reaches this target; --epsilon is out of range"
            )
        best = min(made, key=lambda design: design.error)
        screen.print(self._table(expected, best, target.n))
        for line in self._projected(expected, target):
            answers.add("about", line)
            screen.print(line, highlight=False)
        _promise(screen, best)
        _absence(screen, best, VectorTask(self.dimension, self.radius, hides=True))

    def _table(self, expected: Sequence[Prediction], best: Design[Any], n: int) -> Table:
        """A row for each mechanism: those that publish no data, then by their errors."""
        table = empty(
            f"{n:,} reports of {self.dimension:,} numbers in -1 to 1",
            "auto: what vector-mean takes, of the least worst-case error without a bias; "
            "error: mean squared error of a coordinate; to 0, to mean: the same after the best "
            "shrinking to 0 and to the mean of all coordinates; ±: half an interval that covers a "
            "coordinate 95 times in 100; sent: messages of a user; local and release: epsilon",
            "", "mechanism", "error", "to 0", "to mean", "±", "bits", "sent", "local", "release",
            texts=2, padding=0,
        )  # fmt: skip
        for row in expected:
            errors, design = [getattr(row, name) for name in _ERRORS], row.design
            named, cost = dict(zip(_ERRORS, errors, strict=True)), [""] * 4
            facts: dict[str, Any] = {"mechanism": row.name, **named}
            if design is not None:
                messages = f"{design.mechanism.messages:.0f}"
                facts, cost = (
                    _facts(design, **named),
                    [str(design.bits), messages, *_losses(design)],
                )
            answers.add("rows", facts)
            shown = ("" if error is None else _short(error) for error in errors)
            table.add_row("auto" if design is best else "", row.name, *shown, *cost)
        return table

    def _projected(self, expected: Sequence[Prediction], target: Target[VectorTask]) -> list[str]:
        """Where a random projection pays, and what is better there."""
        errors = {row.name: row for row in expected}
        rphm, hm = errors.get("multi_rphm"), errors.get("multi_hm")
        if rphm is None or hm is None or hm.to_zero is None:
            return []
        second = target.task.mean_square if self.second_moment is None else self.second_moment
        square = second if self.mean_square is None else self.mean_square
        at = crossover(target, square, second)
        where = f"below n* = {at:,.0f} reports" if at < math.inf else "whatever their number"
        said = f"multi_rphm has a smaller error than multi_hm {where}"
        if not hm.to_zero <= rphm.error:
            return [f"{said}."]
        return [
            f"{said}; shrinking dominates it: multi_hm, shrunk to 0, errs by {hm.to_zero:.3g} "
            f"where multi_rphm errs by {rphm.error:.3g}."
        ]


def _short(number: float) -> str:
    """Three digits, in seven characters."""
    text = f"{number:.2e}" if 0 < number < 1e-3 else f"{number:.3g}"
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].replace("+", ""), text)


def _facts(design: Design[Any], **more: Any) -> dict[str, Any]:
    """A design's row as programs read it: `local` and `release` are epsilons."""
    costs = {"bits": design.bits, "sent": design.mechanism.messages}
    local = None if design.local.model == "none" else design.local.epsilon
    return {"mechanism": design.name, **more, **costs, "local": local,
            "release": design.release.epsilon}  # fmt: skip


def _losses(design: Design[Any]) -> list[str]:
    """The two epsilons of a design, rounded up: of one report, and of the release."""
    local = design.local
    return [
        "none" if local.model == "none" else f"{upward(local.epsilon, 4):g}",
        f"{upward(design.release.epsilon, 4):g}",
    ]


def _absence(screen: Console, best: Design[Any], hiding: Task[Any]) -> None:
    """Print what each choice of --unusable costs, by the same task where absence is hidden."""
    try:
        best_hiding = search(best.target.asking(hiding))
    except ValueError as error:
        said = f"cannot be had here ({error})"
        answers.tell(hide={"refused": str(error)})
    else:
        cost = 100 * max(math.sqrt(best_hiding.published_error / best.published_error) - 1, 0)
        answers.tell(hide={"adds_percent": cost, "mechanism": best_hiding.name})
        said = f"adds {cost:.2g} % to the standard error" if cost >= 0.005 else "costs nothing"
        said += "" if best_hiding.name == best.name else f", by {best_hiding.name}"
    screen.print(
        f"whether a value is missing: --unusable hide, the default, {said}; fill=VALUE and count "
        "cost no noise",
        highlight=False,
    )


def _promise(screen: Console, design: Design[Any]) -> None:
    """Print the guarantee of a design, and how it is known."""
    answers.tell(best=design.name, guarantee=design.release.as_dict())
    for line in (one_line(design.release), f"how it is known: {design.release.how}"):
        screen.print(line, highlight=False)
