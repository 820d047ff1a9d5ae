"""Which mechanisms for means, with which alphas."""

from __future__ import annotations

import pytest

from hushbeam.studies.engine.cells import Cell
from hushbeam.studies.studies.mean import SETS
from hushbeam.studies.systems.means import MeanSystem, lines
from mechanisms import catalog
from pipelines.errors import RequestError


def means(names: list[str], alphas: list[str]) -> tuple[MeanSystem, ...]:
    return lines(names, alphas, SETS)


def test_sets_and_alphas_make_lines() -> None:
    chosen = means(["dct-paper", "dct"], ["2", "5", "2.0", "best"])
    assert [str(line) for line in chosen] == [
        "duchi", "pm", "dct_published, alpha 2", "dct_published, alpha 5", "dct, alpha 2",
        "dct, alpha 5", "dct, best alpha",
    ]  # fmt: skip
    assert len({line.system for line in chosen}) == 7
    assert {str(line) for line in means(["dct"], ["3"])} == {"dct"}
    assert {one.name for one in means(["all"], ["5"])} == {
        *catalog.of_task("mean"), "nm-em", "nm-ems",
    }  # fmt: skip
    for names, alphas in (
        (["nothing"], ["5"]),
        (["dct"], ["0"]),
        (["dct"], ["nan"]),
        (["dct"], ["much"]),
        (["dct_published"], ["best"]),
    ):
        with pytest.raises(RequestError, match=r"--systems|--alphas"):
            means(names, alphas)


def test_the_same_system_has_the_same_noise_whatever_its_label_and_company() -> None:
    (alone,) = means(["dct"], ["5"])
    among = next(line for line in means(["dct"], ["2", "5"]) if line.alpha == 5)
    assert str(alone) != str(among)
    assert Cell("a", alone, 1.0, 1e-6).seed(0, 3) == Cell("a", among, 1.0, 1e-6).seed(0, 3)
