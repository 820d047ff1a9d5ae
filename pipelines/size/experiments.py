"""`hushbeam size --experiment`: which effect an experiment finds, and how long it has to run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from rich.table import Table

from mechanisms.compat.roots import brentq
from mechanisms.counters.arms import ArmCounters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.mean.looks import Looks
from mechanisms.postprocess.intervals import normal_quantile
from pipelines.metrics.experiment.options import MOST_LOOKS
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.request.requests import Whole
from pipelines.size.counters import Row
from pipelines.size.question import OUT_OF_REACH, PlannerQuestion, Users, empty

_RISK, _MISSED = 0.05, 0.2
_USUAL = (
    ("rate", (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)), ("scatter", (0.05, 0.1, 0.2, 0.3)),
    ("quantile", (0.5, 0.9, 0.95, 0.99)),
)  # fmt: skip
_MOST = math.log(1e12)  # users that are tried


class ExperimentQuestion(PlannerQuestion):
    """Which difference between two arms of one size is found."""

    asks: ClassVar[str] = "experiment"
    title: ClassVar[str] = "experiments"

    experiment: Users = option(
        "how many users take part: shows which difference `hushbeam experiment` finds four times "
        "in five, at 5 % false alarms",
        metavar="N",
    )
    arms: Whole = option("how many arms, all of one size (2)", 2, metavar="A", ge=2, le=100)
    outcomes: Whole = option("how many outcomes share the price (1)", 1, metavar="O", ge=1, le=1000)
    looks: Whole = option("how many looks are planned (1)", 1, metavar="N", ge=1, le=MOST_LOOKS)
    lift: float | None = option(
        "a difference that is to be found, in per cent of the first arm's rate or mean: shows how "
        "many users that takes",
        None, metavar="PERCENT", ge=0.1,
    )  # fmt: skip
    per_day: Users | None = option("users a day: shows the days that it takes", None, metavar="N")

    def table(self) -> Table:
        """A row for each usual rate, for numbers that scatter more and more, and for quantiles."""
        table = empty(
            f"experiment of {self.arms} arms, {self.experiment:,} users, {self.terms}",
            "difference, and in per cent of the rate, mean or quantile: found four times in five "
            "at 5 % false alarms. price: how much larger than without noise. A number has its mean "
            "in the middle, and scatters by a part of its range; a quantile is of exponential "
            "numbers, its difference in parts of it. users, days: for --lift, by --per-day",
            "outcome", "difference", "%", "price", "users", "days", texts=1,
        )  # fmt: skip
        for how, values in _USUAL:
            for value in values:
                try:
                    facts, cells = self._row(how, value)
                except ValueError:
                    facts, cells = {"refused": OUT_OF_REACH}, [OUT_OF_REACH]
                answers.add("rows", {"outcome": how, "value": value, **facts})
                table.add_row(f"{how} {100 * value:g} %", *cells)
        return table

    def _row(self, how: str, value: float) -> Row:
        mean = {"rate": value, "scatter": 0.5, "quantile": 1.0}[how]
        detectable = self._detectable(how, value)
        size, exact = detectable(self.experiment), detectable(self.experiment, 0.0)
        facts: dict[str, Any] = {"difference": size, "price": size / exact}
        cells = [f"{size:.3g}", f"{100 * size / mean:.3g}", f"{size / exact:.3f}"]
        if self.lift is not None:
            wanted = self.lift / 100 * mean
            users = brentq(lambda n: math.log(detectable(math.exp(n)) / wanted), -_MOST, _MOST)
            facts["users"] = max(math.ceil(math.exp(users)), self.arms)
            cells.append(f"{facts['users']:,}")
            if self.per_day is not None:
                facts["days"] = facts["users"] / self.per_day
                cells.append(f"{facts['days']:,.1f}")
        return facts, cells

    def _detectable(self, how: str, value: float) -> Callable[..., float]:
        """(users, of how much noise) -> the difference that is found, in parts of the range."""
        rates = self.outcomes * (how == "rate")
        epsilon, delta = self.target[1:]
        columns = self.outcomes * (how == "quantile")
        of = self.arms, 1, rates, self.outcomes - rates - columns
        counters = ArmCounters.fine(*of, self.experiment, epsilon, delta, columns)
        sides = (Level(1, 1),) * bool(counters.numbers)
        design = JobTotals.meeting(counters.levels, *self.target, sides, parts=counters.parts)
        units, *totals = counters.noises(design.variances)
        if columns:  # its density, in parts of itself
            steep = ((1 - value) * math.log(1 - value)) ** 2
            chance = value * (1 - value) / steep
            noise = counters.below_variances(value, design.variances).mean() / steep
        elif rates:
            noise, chance = totals[0] + value**2 * units, value * (1 - value)
        else:  # in the middle its mean is 0, in halves of the range of which noise is told
            noise, chance = totals[0] / 4, value**2

        def detectable(users: float, noisy: float = 1.0) -> float:
            n = users / self.arms
            sampling, own = 2 * chance / n, noisy * 2 * noise / n**2
            half = Looks(self.looks, self.looks).half(_RISK, sampling, own)
            return half + normal_quantile(1 - 2 * _MISSED) * math.sqrt(sampling + own)

        return detectable
