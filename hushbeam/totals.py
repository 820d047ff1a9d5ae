"""Running totals, from Python: total so far and rolling windows at one price for a horizon."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

from hushbeam.calls import called, warn
from pipelines.errors import RequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from mechanisms.channel import Guarantee


class RunningTotals:
    """Totals that grow window by window, published with noise, at one price for all windows.

    Who calls has exact numbers, and is trusted with them. The folder is a release, and may be
    published; the secret may not.

    Attributes:
        folder: of the release.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        epsilon: float,
        delta: float,
        horizon: int,
        names: Sequence[str] = ("all",),
        norm: float = 1.0,
        changed: int = 1,
        windows: int | None = None,
        unit: Literal["row", "user"] = "row",
        secret: str | os.PathLike[str] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        population: str | None = None,
        confidence: float = 0.95,
        large_delta: bool = False,
    ) -> None:
        """Begin running totals, or go on with those that stand in the folder.

        Args:
            output: a new folder, local, or that of running totals with the same terms.
            epsilon: the privacy loss of all windows together, in nats.
            delta: the probability that it may fail.
            horizon: how many windows there are at the most.
            names: of the totals.
            norm: of what a unit adds in a window (Euclidean, over all totals).
            changed: how many totals a unit adds to in a window.
            windows: to how many windows a unit adds, at the most; needed for users, of whom the
                promise is about those in no more. That it does is for the caller to see to.
            unit: what is protected.
            secret: the file in which noise is kept, by default in a folder of this account's. An
                older copy must never take its place: a window would be drawn twice.
            ledger: which pays, once, for all windows.
            population: whose budget that is.
            confidence: of the intervals that are published.
            large_delta: whether a delta above 0.01 is meant.

        Raises:
            RequestError: a number is out of range, or other totals stand in the folder.
            WithheldError: too little budget is left.
        """
        self.folder = os.fspath(output)
        with called() as cautions:
            from mechanisms.postprocess.intervals import normal_quantile
            from mechanisms.randomness import SecureRandom
            from mechanisms.running.totals import Contribution, least
            from pipelines.ledger.paying import Payment
            from pipelines.request.requests import require_numbers, require_small_delta
            from pipelines.running.kept import Place
            from pipelines.running.totals import begun

            require_numbers(
                epsilon=epsilon, delta=delta, horizon=horizon, norm=norm, changed=changed,
                windows=windows, confidence=confidence,
            )  # fmt: skip
            require_small_delta(delta, large_delta)
            if unit not in ("row", "user"):
                raise RequestError("unit is row or user")
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise RequestError('names are texts in a list, as in ["all"]')
            if not all(isinstance(x, Integral) for x in (horizon, changed, windows or 1)):
                raise RequestError("horizon, changed and windows are whole numbers")
            if windows is None and unit == "user":
                raise RequestError(
                    "windows is missing: the promise is about users in at most so many windows, "
                    f"and says nothing true of others; {horizon} covers everybody"
                )
            try:
                contribution = Contribution(norm, changed, 1 if windows is None else windows)
                design = least(epsilon, delta, horizon, contribution, len(names))
                normal_quantile(confidence)
            except ValueError as error:
                raise RequestError(str(error)) from None
            if (ledger is None) != (population is None):
                raise RequestError("ledger and population go together")
            pays = None if ledger is None else Payment(os.fspath(ledger), str(population))
            request: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "horizon": horizon}
            request |= {
                "contribution": asdict(contribution),
                "unit": unit,
                "confidence": confidence,
            }
            self._place = Place.of(self.folder, None if secret is None else os.fspath(secret))
            self._kept = begun(self._place, request, design, names, pays, SecureRandom())
        warn(cautions, 2)

    @property
    def guarantee(self) -> Guarantee:
        """What holds of all windows together; its `condition` says of which units."""
        return self._kept.guarantee

    def add(self, window: str, numbers: Mapping[str, Any] | int) -> pa.Table:
        """Add a window; as often as need be with the same numbers, until there is another.

        Args:
            window: its name.
            numbers: name -> what it adds to the total, exactly; a number where there is one total.

        Returns:
            As `total`.

        Raises:
            RequestError: it was drawn before with other numbers, or the horizon is over.
        """
        with called():
            from mechanisms.randomness import SecureRandom
            from pipelines.running.totals import add

            if not (isinstance(window, str) and window):
                raise RequestError("a window has a name, as in 2026-11-20")
            amounts = numbers if isinstance(numbers, Mapping) else {self._kept.names[0]: numbers}
            self._kept = add(self._place, window, amounts, SecureRandom())
        return self.total()

    def total(self, confidence: float | None = None) -> pa.Table:
        """The totals after each window: estimate, standard_error, and an interval for each alone.

        Args:
            confidence: of the intervals; by default what was said at the begin.
        """
        return self._table(None, confidence)

    def rolling(self, windows: int, confidence: float | None = None) -> pa.Table:
        """The same of the last windows, at each that has as many.

        Args:
            windows: how many.
            confidence: of the intervals; by default what was said at the begin.

        Raises:
            RequestError: it is not a number of windows.
        """
        last: Any = windows  # what a caller without types hands over
        if not isinstance(last, Integral) or windows < 1:
            raise RequestError(f"windows must be a whole number of at least 1, not {windows!r}")
        return self._table(windows, confidence)

    def _table(self, last: int | None, confidence: float | None) -> pa.Table:
        from pipelines.running.totals import table

        return table(self._kept, last, confidence)

    def __repr__(self) -> str:
        done, horizon = len(self._kept.windows), self._kept.design.horizon
        return f"<hushbeam.RunningTotals: {done:,} of {horizon:,} windows>"
