"""Bounds that nobody declared: a first round counts how large numbers are, and is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mechanisms.channel import Guarantee

if TYPE_CHECKING:
    import pyarrow as pa

SHARE = 0.1
"""Of epsilon, and of delta if that is said: what the first round spends."""
ROUND = (
    "a first round, published as OUTPUT-bounds, counts how large numbers are, for a tenth of "
    "epsilon, and chooses powers of two that hold all but 0.1 % of them, or all but what noise "
    "hides"
)
"""What --choose-bounds does."""


@dataclass(frozen=True)
class ChosenBounds:
    """What a first round has come to.

    Attributes:
        bounds: expression -> (low, high), powers of two.
        labels: expression -> what people call it.
        release: the folder where it is published.
        guarantee: what it has spent.
        design: its noise; of a query the accounts of its plan, as data.
        epsilon: what both rounds may spend, where the statement of a metric says so.
    """

    bounds: Mapping[str, tuple[float, float]]
    labels: Mapping[str, str]
    release: str
    guarantee: Guarantee
    design: Any
    epsilon: float | None = None

    @property
    def words(self) -> str:
        """For the statement and the page."""
        if not self.bounds:
            return (
                f"{', '.join(self.labels.values())}: a first round chooses bounds, at epsilon "
                f"{self.guarantee.epsilon:.4g} of the whole"
            )
        return chosen_words(self.release, self.guarantee.epsilon, self._named)

    @property
    def facts(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "release": self.release, "bounds": self._named, "guarantee": self.guarantee.as_dict(),
            "words": self.words,
        }  # fmt: skip

    @property
    def _named(self) -> dict[str, list[float]]:
        return {self.labels[text]: [*pair] for text, pair in self.bounds.items()}


def chosen_words(release: str, epsilon: float, bounds: Mapping[str, Sequence[float]]) -> str:
    """What a first round has chosen, for the statement and the page.

    Args:
        release: the folder where it is published.
        epsilon: that it has spent.
        bounds: what people call an expression -> (low, high).
    """
    pairs = ", ".join(f"{label} {low:g} .. {high:g}" for label, (low, high) in bounds.items())
    return (
        f"Bounds were chosen by a first round, published in {release}, at epsilon {epsilon:.4g} of "
        f"the whole: {pairs}. Numbers that few hold may lie beyond and are clipped, which "
        "intervals do not cover."
    )


def first_metrics(
    texts: Sequence[str], users: bool, where: Sequence[str]
) -> tuple[Mapping[str, Any], ...]:
    """Metrics of a plan that count how large the numbers of expressions are.

    A user counts by one row, drawn uniformly: noise is then as small as can be.

    Args:
        texts: the expressions.
        users: whether users are protected, and not rows.
        where: what must hold of a row.
    """
    from mechanisms.mean.magnitudes import bins

    own: dict[str, Any] = {"by_row": True, "rows_per_user": 1} if users else {}
    own |= {"where": [*where]} if where else {}
    return tuple({
        "name": f"magnitudes-{place}", "kind": "count", "undeclared": "drop", **own,
        "derive": {f"magnitude {place}": f"magnitude({text})"},
        "group": [f"magnitude {place}=0..{bins() - 1}"],
    } for place, text in enumerate(texts, 1))  # fmt: skip


def chosen_of(table: pa.Table) -> tuple[float, float]:
    """Bounds from what a first round has published of one expression.

    Args:
        table: "estimate" and "standard_error", one row a bin.
    """
    from mechanisms.mean.magnitudes import chosen_bounds

    counts, errors = (table[name].to_numpy() for name in ("estimate", "standard_error"))
    return chosen_bounds(counts, float(errors.max()))
