"""Whether a model is of any use: its error beside that of the best constant, and what is said."""

from __future__ import annotations

from mechanisms.learning.baseline import Baseline, BaselineComparison
from pipelines.train.curve import Scored

UNKNOWN = "Nobody looked whether this model errs less than always saying the same does."


def verdict(comparison: BaselineComparison | None, measure: str) -> str:
    """What a comparison comes to, in a sentence.

    Args:
        comparison: of the published model, if there is one.
        measure: what its errors are.
    """
    if comparison is None:
        return UNKNOWN
    largest = comparison.largest
    model, constant = (min(max(error, 0.0), largest) for error in comparison[:2])
    difference, known = comparison.constant - comparison.model, comparison.standard_error
    figures = (
        f"its {measure} is about {model:.4g}, that of the best constant {constant:.4g}; it is "
        f"{difference:.2g} less, ± {comparison.reach * known:.2g}"
    )
    return {
        True: f"This model errs less than always saying the same does: {figures}.",
        None: "Noise leaves open whether this model errs less than always saying the same does: "
        f"{figures}.",
        False: f"Of no use: this model errs more than always saying the same does: {figures}.",
    }[comparison.gained]


def of_public_rows(
    scored: Scored, baseline: Baseline, unit: float, confidence: float
) -> BaselineComparison | None:
    """A comparison on public rows, about other rows of the same kind."""
    places = slice(-1 - baseline.questions, None)
    means = scored.sums[places] / scored.n
    spreads = (scored.squares[places] / scored.n - means**2).clip(0) / scored.n
    means[0], spreads[0] = means[0] / baseline.largest, spreads[0] / baseline.largest**2
    return baseline.compared(means.tolist(), spreads.tolist(), unit, confidence)
