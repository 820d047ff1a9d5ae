"""Two codes as two papers have them: 1BitMean, and Duchi's mechanism with a delta."""

from mechanisms.mean.scalar import SMALL, SMALL_WITH_DELTA
from mechanisms.mean.two_point import TwoPoint
from mechanisms.registry import register


@register(
    "1bitmean",
    task="mean",
    sends="one bit: `duchi` by another road, of numbers that are counters",
    source="Ding, Kulkarni, Yekhanin, NIPS 2017",
    small=SMALL[1:3],
)
def one_bit_mean(epsilon: float, cells: int = 1024) -> TwoPoint:
    """1BitMean: the channel of `duchi` for counters in [0, m], taken to [-1, 1].

    Its chance of a one is linear from 1 / (e^epsilon + 1) to e^epsilon / (e^epsilon + 1). Its
    alpha-point rounding to multiples of s = m / N, with an offset and a bit for each multiple that
    last for ever, is what `mechanisms.memoised.MemoisedClient` does with N cells, and prices.

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range.

    Source: Ding, Kulkarni, Yekhanin, "Collecting telemetry data privately", NIPS 2017.
    """
    return TwoPoint(epsilon, cells)


@register(
    "ndm",
    task="mean",
    sends="one bit, with a delta",
    source="the baseline of Zhang, Zhu, Zhou, Yuan 2023",
    small=SMALL + SMALL_WITH_DELTA,
)
def ndm(epsilon: float, delta: float = 0.0, cells: int = 1024) -> TwoPoint:
    """NDM, Duchi's mechanism with a delta: B = (e^epsilon + 1) / (e^epsilon - 1 + 2 delta).

    Args:
        epsilon: privacy loss of one report, in nats.
        delta: the probability mass outside it, in [0, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism, which spends delta exactly.

    Raises:
        ValueError: a parameter is out of range.

    Source: the baseline of Zhang, Zhu, Zhou, Yuan, "Mean estimation mechanisms under (epsilon,
        delta)-local differential privacy", J. Electronics and Information Technology 2023. The
        variance it states is the one at 0, which is the largest.
    """
    return TwoPoint(epsilon, cells, delta)
