"""The contract takes kinds of other distributions, and each way to be wrong fails it by its name.

`above` counts the numbers above a threshold, by counters alone; the faults are planted in copies of
it and of docs/extending/your-own-metric.md's `even-share`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.metrics import registry
from tests.contract import examples, forms, runs
from tests.fakes.few import few
from tests.fakes.installed import FAKES, install

_ABOVE = {
    "options": '''
"""What a person asks for of the numbers above a threshold."""

from typing import ClassVar

from pipelines.metrics.counting.options import CountOptions
from pipelines.metrics.options import published
from pipelines.request.options import option


class Options(CountOptions):
    metric: ClassVar[str] = "PACKAGE.metric:Above"
    sizing: ClassVar[str] = ""
    running: ClassVar[str] = ""
    brief: ClassVar[str] = "how many numbers are above a threshold"
    description: ClassVar[str] = "How many numbers are above a threshold."
    threshold: float = option("the threshold")
    output: str = published("NAME.parquet")
''',
    "metric": '''
"""Numbers above a threshold, counted."""

from dataclasses import dataclass

from pipelines.metrics.statistics.count import Count


@dataclass(frozen=True, kw_only=True)
class Above(Count):
    kind = "NAME"

    @classmethod
    def read(cls, options, source):
        counted = f"{options.column} > {options.threshold}"
        rows = options.model_copy(update={"where": (*options.where, counted), "column": None})
        return super().read(rows, source)
''',
    "example": '''
"""What is true of the numbers above a threshold."""

import numpy as np

from tests.contract.truth import Example, Form, Truth


def above(log):
    return {(None,): float(np.sum(log["size"] > 20))}


_TRUTHS = (Truth("NAME.parquet", above, joint=None),)
EXAMPLE = Example(
    {"column": "size", "threshold": 20, "epsilon": 0.5},
    {
        "shuffler": Form(truths=_TRUTHS),
        "devices": Form({"enrolled": 3000}, _TRUTHS),
        "job": Form(truths=_TRUTHS),
    },
)
''',
}


@pytest.fixture
def install_kind(workspace: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package with one kind, some of whose lines read otherwise; the kind's name."""
    runs.write_inputs(workspace, examples.log())

    def installed(name: str, *changes: tuple[str, str, str], like: str = "even-share") -> str:
        package, site = name.replace("-", "_"), workspace / "site"
        (site / package).mkdir(parents=True)
        for module in ("options", "metric", "example"):
            text = _ABOVE[module] if like == "above" else _of_page(module)
            text = text.replace("PACKAGE", package).replace("NAME", name)
            for where, before, after in changes:
                if where == module:
                    assert text.count(before) == 1
                    text = text.replace(before, after)
            (site / package / f"{module}.py").write_text(text)
        options = "Options" if like == "above" else "EvenShareOptions"
        project = f'[project]\nname = "{name}"\nversion = "1"\n'
        for group, place in (("metrics", f"options:{options}"), ("examples", "example:EXAMPLE")):
            project += f'[project.entry-points."hushbeam.{group}"]\n{name} = "{package}.{place}"\n'
        install(project, site)
        monkeypatch.syspath_prepend(site)
        assert registry.known(name)
        return name

    return installed


def _of_page(module: str) -> str:
    text = (FAKES / "even_share" / f"{module}.py").read_text("utf-8")
    return text.replace("even_share.options", "PACKAGE.options").replace(
        '"even_share.metric', '"PACKAGE.metric'
    ).replace('"even-share"', '"NAME"')  # fmt: skip


def hold(kind: str, size: int = 100) -> None:
    """The kind, in all of its forms, to the contract."""
    example = forms.example(kind)
    assert example.forms.keys() == forms.offered(kind).keys()
    for name, said in forms.offered(kind).items():
        form = example.forms[name]
        asked = {**example.asked, **said, **form.asked}
        runs.require_true(form.truths, runs.repeat(kind, asked, size, name))
        for number in range(size):
            Path(f"out-{number}").rename(f"{name}-{number}")


@pytest.mark.parametrize("like", few(["above", "even-share"], lambda _: "honest"))
def test_kinds_of_others_that_tell_the_truth_pass(like: str, install_kind) -> None:
    hold(install_kind(f"honest-{like}", like=like))


_ERROR = '"standard_error": standard_errors(self.mechanism, unbiased, n)'
_SMALL = (
    ("metric", _ERROR, _ERROR + " / 3"),
    ("metric", '"lower": lower', '"lower": estimate.estimate'),
    ("metric", '"upper": upper', '"upper": estimate.estimate'),
)
_INVERSE = (
    ("metric", '"estimate": estimate.estimate', '"estimate": 1 - estimate.estimate'),
    ("metric", '"unbiased": unbiased', '"unbiased": 1 - unbiased'),
    ("metric", '"lower": lower', '"lower": 1 - upper'),
    ("metric", '"upper": upper', '"upper": 1 - lower'),
)
_SWAPPED = (
    ("metric", '"estimate": estimate.estimate', '"estimate": lower'),
    ("metric", '"lower": lower', '"lower": estimate.estimate'),
)


@pytest.mark.parametrize(
    ("name", "changes", "like", "said"),
    few([
        ("errors-a-third", _SMALL, "even-share", "of the standard error|far from the truth"),
        ("points-for-intervals", _SMALL[1:], "even-share", "intervals miss the truth"),
        ("one-less-the-share", _INVERSE, "even-share", "far from the truth"),
        ("columns-swapped", _SWAPPED, "even-share", "intervals miss the truth|own intervals"),
        (
            "twice-the-threshold",
            (("metric", "> {options.threshold}", "> {2 * options.threshold}"),),
            "above",
            "far from the truth",
        ),
    ], lambda case: case[2]),
)  # fmt: skip
def test_a_kind_that_is_wrong_fails_by_what_is_wrong(
    name: str, changes, like: str, said: str, install_kind
) -> None:
    kind = install_kind(name, *changes, like=like)
    with pytest.raises(AssertionError, match=said):
        hold(kind)


def test_a_form_without_a_truth_fails(install_kind) -> None:
    lacking = ("example", ', "shuffle": Form(truths=(UNBIASED, MOVED))', "")
    with pytest.raises(AssertionError, match="shuffle"):
        hold(install_kind("half-told", lacking))


def test_a_kind_without_an_example_fails(install_kind, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = install_kind("untold")
    monkeypatch.setattr(forms, "GROUP", "hushbeam.nothing")
    with pytest.raises(KeyError, match="untold"):
        forms.example(kind)
