"""Ways to estimate the mean of rows, and what they are expected to err by."""

from __future__ import annotations

import numpy as np
import pytest

from hushbeam.studies.populations.rows import RowPopulation, read_rows
from hushbeam.studies.studies.vector_mean import SETS
from hushbeam.studies.systems.rows import cut_off, lines, radius
from mechanisms.vector.rows import shortened
from pipelines.errors import RequestError

PAPER = "gauss:10000,400,0.33333333,0.25"  # Multi-RPHM's: N(1/3, 1/16)


def every_row(rows: RowPopulation) -> np.ndarray:
    return np.concatenate(list(rows.blocks()))


def test_sets_and_names_make_lines() -> None:
    chosen = lines(["paper", "multi_hm", "shrinkage", "privunit-zero"], SETS)
    assert [str(line) for line in chosen] == [
        *SETS["paper"], *SETS["shrinkage"], "privunit-zero",
    ]  # fmt: skip
    assert [line.system for line in chosen] == [str(line) for line in chosen]
    for bad in ("pm", "multi_hm-", "multi_hm-best", "zeros-zero", "multi_rphm-zero", "zeros-", ""):
        with pytest.raises(RequestError, match="--systems"):
            lines([bad], SETS)


@pytest.mark.parametrize(
    ("d", "epsilon", "name", "error"),
    [  # as the reference page has them, for the law in place of a sample
        (200, 1.0, "multi_hm", 0.0892),
        (200, 1.0, "multi_rphm", 0.0857),
        (200, 1.0, "multi_hm-share", 0.0624),
        (200, 1.0, "multi_hm-zero", 0.0495),
        (200, 1.0, "privunit", 0.0266),
        (400, 0.6, "multi_rphm", 0.1201),
        (400, 0.6, "zeros", 0.1109),
        (400, 1.0, "projection", 0.0776),
        (400, 1.0, "multi_hm", 0.1785),
        (400, 1.4, "multi_hm", 0.0940),
    ],
)
def test_predictions_are_those_of_the_reference(d, epsilon, name, error) -> None:
    (rows,) = read_rows([PAPER], dimensions=[d])
    (system,) = lines([name], SETS)
    assert system.predicted(rows, epsilon) == pytest.approx(error, rel=0.012)


def test_cutting_rows_off_is_predicted_too() -> None:
    cut, whole = read_rows(["gauss:2000,2,0.3,0.3", "gauss:2000,300,0.3,0.1"])
    (shrunk,) = lines(["privunit-zero"], SETS)
    shift = np.mean((shortened(every_row(cut), radius(cut)).mean(axis=0) - cut.mean) ** 2)
    assert cut_off(cut) == pytest.approx(shift)
    assert cut_off(cut) > 1e-3
    assert shrunk.predicted(cut, 3.0) is None
    assert cut_off(whole) == 0
    assert shrunk.predicted(whole, 1.0) is not None
