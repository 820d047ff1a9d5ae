"""What randomised reports of rows say: unbiased and moved estimates, who lacks a number, lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mechanisms.channel import Floats
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.postprocess.shrinkage import Shrunk, to_mean, to_prior
from mechanisms.vector.base import VectorMean
from mechanisms.vector.limits import RowEstimate, Shares, estimate_mixed, estimate_row
from mechanisms.vector.mixed_rows import MixedRows
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.statistics.row_evidence import RowFigures
from pipelines.metrics.unusable.share import Share
from pipelines.wording import upward

if TYPE_CHECKING:
    from transforms.collector.collect_counts import Counted

_COVERS = (
    "Standard errors and intervals cover the randomisation of the reports, rounding included. They "
    "belong to the unbiased estimates and hold for the mean of the rows that were reported, "
    "clipped to the bounds"
)
_SAMPLE = (
    " Each user reports some of the attributes only: that those who report one are a sample of all "
    "is in its errors."
)
_SHRUNK = {
    "zero": "the middle of the bounds",
    "grand-mean": "the mean of all coordinates, each on the scale of its bounds",
    "prior": "the row that was given",
}


class Received(NamedTuple):
    """All messages of a batch, counted, and the rows that they say.

    Attributes:
        counts: as `messages` and `invalid`, of `Counted`.
        rows: (n, dimension) on the scale of [-1, 1]: of each user's report what it alone estimates.
            Their average is the estimate.
    """

    counts: Any
    messages: int
    invalid: int
    rows: Floats

    @classmethod
    def of(cls, blocks: Sequence[np.ndarray], mechanism: VectorMean) -> Received:
        """Of blocks in which messages of a user follow one another."""
        words = np.concatenate([np.empty(0, np.uint64), *blocks])
        messages = words.reshape(-1, int(mechanism.messages))
        rows = np.empty((len(messages), mechanism.dimension))
        for place, report in enumerate(messages):
            rows[place] = mechanism.estimate(mechanism.count(report), 1)
        # In the log's order they would say whose each is.
        rows = rows[np.lexsort(rows.T[::-1])]
        return cls(mechanism.count(words), words.size, 0, rows)


class VectorEstimate(NamedTuple):
    """A row on the scale of [-1, 1], before and after it was moved.

    Attributes:
        row: the unbiased estimate with its errors; of no number that nobody reported.
        shrunk: the same, moved towards a target; None if that was not asked for.
        shares: of each category.
        invalid: how many messages no client could have sent.
        perturbed: the rows of `Received`, if they were asked for.
    """

    row: RowEstimate
    shrunk: Shrunk | None
    shares: list[Shares]
    invalid: int
    perturbed: Floats | None = None

    @property
    def n(self) -> int:
        """How many users reported."""
        return self.row.n

    @property
    def numbers(self) -> RowFigures:
        """The means, with what is known of who lacks a number."""
        row, middle = self.row, np.clip(self.row.unbiased, -1, 1)
        alone, together = (
            (np.fmin(row.unbiased - half, middle), np.fmax(row.unbiased + half, middle))
            for half in (row.alone, row.together)
        )
        more: dict[str, Any] = {"n": row.reports}
        have, error = np.ones_like(middle), np.zeros_like(middle)
        if row.unusable is not None:
            share, unbiased, error, lower, upper = row.unusable
            have = 1 - unbiased
            more |= {
                "unusable": share, "unusable_standard_error": error, "unusable_lower": lower,
                "unusable_upper": upper,
            }  # fmt: skip
        have, error = row.n * have, row.n * error
        return RowFigures(
            middle, row.unbiased, row.standard_error, alone, together, have, error, more
        )

    def category(self, place: int, size: int) -> RowFigures:
        """The shares of the values of a category among all units.

        Args:
            place: of the category.
            size: how many values are declared; behind them stand those who have none.
        """
        shares, n = self.shares[place], self.row.n
        estimate, unbiased, error = (
            column[:size] for column in (shares.estimate, shares.unbiased, shares.standard_error)
        )
        alone, together = (
            (ends[0][:size], ends[1][:size]) for ends in (shares.alone, shares.together)
        )
        more = {"n": np.full(size, shares.reports)}
        return RowFigures(estimate, unbiased, error, alone, together, n * unbiased, n * error, more)

    def absent(self, confidence: float) -> list[Share]:
        """The share of units without each number, and without each category; none if counted.

        Args:
            confidence: with which all intervals hold together.
        """
        quotients = self.row.quotients
        if quotients is None:
            return []
        confidence_of_part = 1 - (1 - confidence) / (self.row.reports.size + len(self.shares))
        shares = quotients.unusable(confidence_of_part)
        ends = (x.tolist() for x in (shares.unbiased, shares.lower, shares.upper))
        parts, reach = [*map(Share.of, *ends)], normal_quantile(confidence_of_part)
        for category in self.shares:
            middle, far = float(category.unbiased[-1]), reach * float(category.standard_error[-1])
            parts.append(Share.of(middle, middle - far, middle + far))
        return parts

    def poisoning(self, rows: VectorMean | MixedRows, forgeable: bool, towards: str) -> Poisoning:
        """How far liars can move a coordinate, in parts of the distance of its bounds.

        Args:
            rows: what users run.
            forgeable: whether others than the job make reports.
            towards: what `--shrink` says.
        """
        number, category = rows.forged_reach(LIARS)
        lies = LIARS
        if (quotients := self.row.quotients) is not None:
            lies, number = quotients.lies_reach(LIARS) / 2, quotients.forged_reach(LIARS)
        moved = "; shrunk coordinates follow all of them, without a bound of their own"
        more, also = (
            f"; an unbiased share of a category by {upward(share, 3):g}" * bool(self.shares)
            + moved * (towards != "none")
            for share in (LIARS, category)
        )
        beside = {"share_of_a_category": category if forgeable else LIARS} if self.shares else {}
        forged = number / 2 if forgeable else None
        figure, unit = "any unbiased coordinate", " % of the distance of its bounds"
        return Poisoning(figure, lies, forged, 100, unit, more, also, beside=beside)

    def error_statement(self, unit: str, radius: float | None, towards: str) -> dict[str, Any]:
        """How far off the estimates may be, and what that covers.

        Args:
            unit: whose rows they are.
            radius: to which rows were shortened, or None.
            towards: what `--shrink` says.
        """
        covers = _COVERS + ("." if unit == "row" else f", one drawn for each {unit}.")
        errors = self.row.standard_error[np.isfinite(self.row.standard_error)]
        described: dict[str, Any] = {
            "covers": covers + _SAMPLE * bool(self.shares),
            "root_mean_square_of_standard_errors": float(np.sqrt(np.mean(errors**2)))
            if errors.size
            else None,
            "scale": "standard errors are given here on the scale on which bounds are -1 and 1",
        }
        if few := int(np.count_nonzero(~np.isfinite(self.row.judged))):
            described["too_few"] = {
                "coordinates": few,
                "means": "So few reported them that nobody knows how far off they are: what is "
                "unknown is null, and no shrunk row has them.",
            }
        if radius is not None:
            described["covers"] += (
                f" Rows longer than {radius:g} on the scale of [-1, 1] were shortened to it; "
                "how many is not published."
            )
        if self.shrunk is not None:
            described["shrunk"] = {
                "towards": _SHRUNK[towards],
                "factor": self.shrunk.factor,
                "source": "James, Stein 1961; Efron, Morris 1973",
                "means": "The shrunk row is nearer to the true one in squared error, on average "
                "over all coordinates together, and biased in each; it has no intervals.",
            }
        return described


def estimated(
    rows: VectorMean | MixedRows, counted: Counted, n: int, confidence: float
) -> tuple[RowEstimate, list[Shares]]:
    """What a batch of n users' messages says, on the scale of [-1, 1]."""
    if counted.counts is None:
        raise ValueError("there are no reports")
    if isinstance(rows, MixedRows):
        return estimate_mixed(rows, counted.counts, n, confidence)
    return estimate_row(rows, counted.counts, n, confidence), []


def shrunk(row: RowEstimate, towards: str, prior: Floats | None) -> Shrunk | None:
    """The unbiased estimate, moved as was asked for; of what too few reported there is none.

    Args:
        row: the estimate.
        towards: what `--shrink` says.
        prior: (dimension,) on the scale of [-1, 1]; the middle of the bounds where it is None.
    """
    # Of one whom nobody else is beside, nobody knows by how much it errs.
    known = np.isfinite(row.unbiased) & np.isfinite(row.judged)
    # Not the squares of the standard errors, which are those of the worst case where reports are
    # few: whoever takes off more noise than there is errs by more than the unbiased estimate.
    unbiased, variance = row.unbiased[known], row.judged[known]
    if towards == "none" or not unbiased.size:
        return None
    if towards == "grand-mean":
        moved = to_mean(unbiased, variance)
    else:
        moved = to_prior(unbiased, variance, 0.0 if prior is None else prior[known])
    whole = np.full(known.size, np.nan)
    whole[known] = moved.estimate
    return moved._replace(estimate=whole)


def shrunk_words(statement: Mapping[str, Any]) -> list[str]:
    """What became of the estimates, if they were shrunk."""
    shrunk = statement["error"].get("shrunk")
    if shrunk is None:
        return []
    kept = f"{100 * shrunk['factor']:.3g} %"
    return [
        f"The shrunk row was moved towards {shrunk['towards']}; {kept} of the distance were kept. "
        f"{shrunk['means']}"
    ]
