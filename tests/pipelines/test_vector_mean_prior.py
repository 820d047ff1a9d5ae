"""A prior is numbers as every program writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import RequestError
from pipelines.metrics.vector_mean.prior import read_prior


@pytest.mark.parametrize("line", ["1_0", "_1", "1_000.5", "1e1_0"])
def test_digits_are_not_grouped(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prior.txt"
    path.write_text(f"1\n{line}\n")
    with pytest.raises(RequestError, match=r"line 2 of .* is not a finite number"):
        read_prior(str(path), 2)


def test_numbers_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "prior.txt"
    path.write_text(" 10\n-2.5e-1\n")
    assert read_prior(str(path), 2).tolist() == [10, -0.25]
