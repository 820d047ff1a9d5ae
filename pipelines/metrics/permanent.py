"""Noise that each user draws once and for all, as a plan declares it, and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mechanisms.channel import Guarantee
from mechanisms.memoised import over_time

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric


def promises(metric: Metric) -> tuple[Guarantee, Guarantee]:
    """A metric's guarantees; of permanent noise, those of all windows together."""
    kept = metric.permanent
    return metric.guarantees if kept is None else kept.promise(metric.guarantees)


@dataclass(frozen=True)
class Permanent:
    """Permanent noise.

    Attributes:
        distinct: the most different values that a user reports of a metric, in all windows.
    """

    distinct: int

    def promise(self, guarantees: tuple[Guarantee, Guarantee]) -> tuple[Guarantee, Guarantee]:
        """What all windows together promise, in the place of what one of them and a report do.

        Two windows whose users all repeat their messages, but for one, differ by that one's. So
        nothing that a shuffler adds is claimed; a collector is taken to know whose each report is.

        Args:
            guarantees: of one window's release, and of a single report.
        """
        released, local = guarantees
        whole = over_time(local, self.distinct, released.unit)
        return whole, whole

    @property
    def neighbours(self) -> str:
        """Which two inputs the promises make hard to tell apart."""
        return (
            "one user's values, in all windows, are replaced by any others that are equal to each "
            f"other in the same windows, at most {self.distinct:,} different ones"
        )

    @property
    def words(self) -> str:
        """What a reader must know."""
        return (
            "Noise is permanent: a user who repeats a value repeats the message. So what is not "
            "hidden is a change: whoever sees two windows sees that somebody's value changed, and "
            "the message before and after. The promises are about all windows together, however "
            f"many, and users of at most {self.distinct:,} different values of each metric that "
            "are equal in the same windows; a user of more loses more, and what the shuffler adds "
            "is not counted."
        )
