"""What expressions can compute: each function, and what it must be given, in its own few lines."""

from transforms.expressions import logic, numbers, texts, times, types
from transforms.expressions.registry import FUNCTIONS

MODULES = (logic, numbers, texts, times, types)
"""Each registers its functions."""

__all__ = ["FUNCTIONS", "MODULES"]
