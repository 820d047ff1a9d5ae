"""Statistics of exact totals to which the job adds integers: whoever runs it sees the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mechanisms.channel import Guarantee, together
from mechanisms.counters.job_totals import JobTotals
from mechanisms.distribution.quantile_choice import QuantileChoice
from mechanisms.randomness import RandomSource
from pipelines.errors import RequestError
from pipelines.metrics.counting.by_counters import ByCounters, counts_alone, error_words
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.counting.shapes.summed_row import SUMMED_ROW
from pipelines.metrics.metric import MetricReports
from pipelines.metrics.options import BY_REPORT, DEVICES, JOB, SHUFFLER, EitherOptions
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling, unshuffled
from pipelines.metrics.statistics.statistic import Workload
from pipelines.request.options import flag
from pipelines.views.digits import three_digits
from transforms.encoders.reports import MISSING

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.collector.collect_counts import Counted
    from transforms.elements.drawing import Draw

_BIASING = 0.01  # of all units: a number that counts as the middle may be half its range away
WHO = (
    "Nothing is hidden from whoever runs the job: it read the rows, counted exactly, and added "
    "noise to each total before anything was published. The promise is against who sees this "
    "release, if the job drew honestly and has told nobody what it counted or drew."
)
_NOISE, _CHOICE = "added noise to each total", "drew a quantile and noise of counts around it"
_SOURCES = {
    False: "Ghosh, Roughgarden, Sundararajan, STOC 2009; drawn as of Canonne, Kamath, Steinke, "
    "NeurIPS 2020, Algorithm 2",
    True: "Balle, Wang, ICML 2018, Theorem 8; drawn as of Karney, ACM TOMS 2016, Algorithm N",
}


@dataclass(frozen=True, kw_only=True)
class ByJob(ByCounters):
    """A statistic whose noise the job adds to what it has counted."""

    draws_once = True

    design: Any  # JobTotals or QuantileChoice

    def __post_init__(self) -> None:
        if self.design.rows != (self.statistic.workload.rows or 1):
            raise ValueError("noise is paid for by as many rows of a unit as count")
        own = len(self.design.levels) - self.design.beside
        if self.parts > 1 and {*self.design.lifts[:own]} != {self.parts}:
            raise ValueError("noise is paid for by all parts of what a unit's rows share")

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        super().require(options, kind)
        named = sorted(options.model_fields_set & {"enrolled", "honest_share", "max_messages"})
        if named:
            raise RequestError(
                f"{flag(named[0])}: says something of dummies, and --drawn-by {JOB} has none: "
                "leave it out"
            )

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        return "strings that nobody declared have no totals" if work.shape == "strings" else None

    @classmethod
    def shaped(cls, work: Workload) -> Shape:
        return SUMMED_ROW if work.shape == "row" else super().shaped(work)

    @property
    def protection(self) -> Protection:
        system = self.design.name if self.chooses else "job-totals"
        return super().protection._replace(system=system, model="central")

    @property
    def chooses(self) -> bool:
        """Whether it draws cells of quantiles, and no noise of totals."""
        return isinstance(self.design, QuantileChoice)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        what = "draws by ranks" if self.chooses else "adds noise to totals"
        nobody = f"the job reads exact numbers and {what} alone"
        own = replace(self.design.guarantee, unit=self.unit)
        if self.first is not None:
            # How the loss is spread follows from the first round's answer. Epsilon and delta were
            # fixed before, and add up (Dwork and Roth 2014, theorem B.1).
            fixed = replace(own, epsilon=self.options.epsilon, delta=self.options.delta)
            own = together((fixed, self.first.guarantee))
        return own, Guarantee.none(nobody)

    @property
    def priced(self) -> Any:
        if self.first is None:
            return super().priced
        from mechanisms.adaptive_rounds import AdaptiveRounds  # what few ask for

        return AdaptiveRounds((self.first.design, super().priced))

    @property
    def words(self) -> list[str]:
        return super().words + ([] if self.first is None else [self.first.words])

    @property
    def request(self) -> dict[str, Any]:
        if self.first is None:
            return super().request
        whole = {"epsilon": self.first.epsilon, "delta": self.guarantees[0].delta}
        return super().request | whole | {"choose_bounds": True}

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        said = super().statement(estimate, tallies)
        return said if self.first is None else said | {"first_round": self.first.facts}

    @property
    def prospect(self) -> str | None:
        what = "draws by exact ranks" if self.chooses else "adds noise to exact totals"
        return f"the job sees the rows, and {what}: {error_words(self)}"

    @property
    def undivided(self) -> str:
        others = [BY_REPORT] * isinstance(self.options, EitherOptions) + [SHUFFLER, DEVICES]
        return (
            "the job is to draw its noise, for which it has to see exact totals, and here no party "
            f"does: add `drawn_by: {' or '.join(others)}`"
        )

    @property
    def shuffling(self) -> Shuffling:
        return unshuffled(self.mechanism.codes)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        import numpy as np

        from transforms.elements.drawing import DrawNoise

        drawing = reports.drawn_from(self.open_rng)
        messages = drawing.with_empty(reports.messages, np.empty(0, np.uint64), np.ndarray)
        counted = reports._replace(messages=messages).counted(self.mechanism)
        return counted | "Noise" >> DrawNoise(*self._draw, drawing)

    @property
    def _draw(self) -> tuple[Draw, str]:
        """What draws the noise, and what names it."""
        return partial(noisy, self.design), self.name or self.kind

    def with_noise(self, counted: Counted, secret: bytes, window: Any) -> Iterator[Counted]:
        from transforms.elements.drawing import NoiseDoFn

        yield from NoiseDoFn(*self._draw).process(counted, secret, window)

    # What is said of it.

    @property
    def error_statement(self) -> dict[str, Any]:
        said = super().error_statement
        said["covers"] = said["covers"].replace("the noise of the dummies", "the noise")
        return said | ({"law": self.design.laws[0].law} if counts_alone(self) else {})

    def unusable_cautions(self, estimate: Any, confidence: float) -> list[str]:
        lines, evidence = super().unusable_cautions(estimate, confidence), self.evidence(estimate)
        missing = evidence.beside(MISSING, confidence)
        if missing is None or not missing[0] - missing[1] > _BIASING * float(evidence.people.max()):
            return lines
        return [
            *lines,
            f"about {missing[0]:,.0f} {self.unit}s, give or take {missing[1]:,.0f}, lack a number, "
            "which counts as the middle of its bounds, or a value: --count-each takes means of "
            "those who have each number, at 1.4 times the error",
        ]

    def _who(self) -> str:
        return WHO.replace(_NOISE, _CHOICE) if self.chooses else WHO

    @property
    def _moved(self) -> str:
        """What one more unit moves by no more than it may add."""
        ranks = self.statistic.workload.shape == "quantile"
        return "the rank of any one quantile" if ranks else "any one figure"

    def _liars(self) -> str:
        return (
            f"Rows that are made up move {self._moved} by up to {three_digits(self.influence)} "
            f"for each {self.unit} that they name."
        )

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return mechanism_of(self)


def mechanism_of(release: ByCounters) -> dict[str, Any]:
    """What a statement says of the job's noise.

    Args:
        release: by the job.
    """
    return {
        "name": release.protection.system,
        "source": getattr(release.design, "source", _SOURCES[release.design.delta > 0]),
        "constants": release.design.constants,
        "messages_per_user": release.protection.messages,
    }


def noisy(design: JobTotals | QuantileChoice, counted: Counted, rng: RandomSource) -> Counted:
    """What leaves the step in which totals were exact."""
    return counted._replace(counts=design.noisy(counted.counts, rng))
