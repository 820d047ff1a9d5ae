"""Which systems, under which bound, in which model."""

from __future__ import annotations

import pytest

from hushbeam.studies.engine.cells import FigureLine
from hushbeam.studies.papers import hp_sdp
from hushbeam.studies.systems.augmented_systems import AUGMENTED
from hushbeam.studies.systems.histograms import lines
from mechanisms.catalog import of_task
from pipelines.errors import RequestError


def said(names: list[str], bound: str = "exact") -> list[str]:
    return [str(line) for line in lines(names, bound)]


def test_the_eight_systems_of_the_paper() -> None:
    assert said(["paper"]) == list(hp_sdp.SYSTEMS)
    published = said(["paper"], "published")
    assert published == ["laplace", *(f"{name}:published" for name in hp_sdp.SYSTEMS[1:])]
    assert said(["paper:published"]) == published
    assert len(said(["paper"], "both")) == 15  # Laplace's own bound is exact


def test_all_is_every_system_once() -> None:
    every = [*of_task("frequency"), *AUGMENTED]
    assert said(["all"]) == every
    assert said(["all", "grr", "paper"]) == every


def test_the_model_is_the_shuffle_where_it_is_served() -> None:
    assert lines(["grr", "laplace"], "exact") == (
        FigureLine("grr", "exact", "shuffle"),
        FigureLine("laplace", "exact", "central"),
    )
    assert lines(["grr@local"], "exact") == (FigureLine("grr", "exact", "local"),)
    assert said(["grr@local", "sh:published"]) == ["grr@local", "sh:published"]
    assert {line.model for line in lines(["all@local"], "exact")} == {"local"}
    assert "laplace" not in said(["all@local"])


def test_a_bound_in_the_name_goes_before_the_option() -> None:
    assert said(["sh:exact", "aue"], "published") == ["sh", "aue:published"]
    assert said(["grr"], "published") == ["grr"]
    assert said(["sh:published@shuffle"]) == ["sh:published"]


def test_best_has_the_exact_bound_in_every_model() -> None:
    assert said(["best"], "both") == ["best"]
    assert said(["best@local", "best@central"]) == ["best@local", "best@central"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hpsdp", "unknown system 'hpsdp'"),
        ("", "unknown system ''"),
        ("sh:tight", "unknown bound 'tight'"),
        ("sh@cloud", "unknown model 'cloud'"),
        ("sh@local", "does not serve the local model, but: shuffle"),
        ("laplace:published", "has no published bound"),
        ("paper@local", "none of paper serves the local model"),
        ("pop", "is not a mechanism: it is HP-SDP's post-processing"),
        ("a:b:c", "is not of the form"),
        ("sh@shuffle:exact", "is not of the form"),
    ],
)
def test_what_is_no_system_is_refused(name: str, reason: str) -> None:
    with pytest.raises(RequestError) as caught:
        lines([name], "exact")
    assert reason in str(caught.value)
    assert str(caught.value).startswith("--systems: ")
