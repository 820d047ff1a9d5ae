"""PM and HM: gradients reported coordinate by coordinate, of which a user sends a few.

Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and analyzing multidimensional data
with local differential privacy", ICDE 2019; its regression is run again, with DCT's beside it, in
docs/appendix/reproduction-training.md.
"""

from __future__ import annotations

SYSTEMS = ("duchi", "pm", "hm")
"""What its regressions compare."""


def sampled(epsilon: float, dimension: int) -> int:
    """How many coordinates a user sends: one for every 2.5 of epsilon (equation 12).

    >>> sampled(1.0, 10), sampled(5.0, 10), sampled(100.0, 10)
    (1, 2, 10)
    """
    return max(1, min(dimension, int(epsilon / 2.5)))
