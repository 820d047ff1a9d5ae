"""The point that estimates are moved towards, from a file that was written beforehand."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import RequestError, because
from transforms.files.systems import FileSystems

_LARGEST = 1 << 26  # bytes


def read_prior(path: str, dimension: int) -> NDArray[np.float64]:
    """A number a line, in the units of the bounds.

    Args:
        path: of a text file, local or on a file system that Beam knows.
        dimension: how many numbers there must be.

    Returns:
        (dimension,) float64.

    Raises:
        RequestError: the file cannot be read, or a line is no number, or there are more or fewer.
    """
    try:
        with FileSystems.open(path) as stream:
            raw = stream.read(_LARGEST + 1)
        lines = raw.decode("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise RequestError(
            f"--prior: {path} is not a text file that can be read{because(error)}"
        ) from None
    if len(raw) > _LARGEST or len(lines) != dimension:
        raise RequestError(
            f"--prior: {path} holds {len(lines):,} lines; one number a line is needed for each of "
            f"{dimension:,} coordinates"
        )
    return np.array([_number(path, place, line) for place, line in enumerate(lines, 1)])


def _number(path: str, place: int, line: str) -> float:
    try:
        number = math.nan if "_" in line else float(line)  # Python alone takes 1_0 for 10
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RequestError(f"--prior: line {place} of {path} is not a finite number")
    return number
