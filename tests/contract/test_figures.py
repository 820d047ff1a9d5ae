"""Every kind, in every form that it offers, publishes what is true, as near as it says.

The kinds come from the registry, the forms from their options. A form is a command, whose job is
run again and again with other noise; figures are held to a truth worked out from the log alone:

* no figure is farther off than chance takes one in 10^12, and each lies in its own intervals;
* errors are as large as stated, on average; those of projected, shrunk and isotonic figures are not
  larger; intervals cover as often as stated, one by one, and together in so many runs.

False alarms: 10^-12 a decision, of which there are fewer than 1,000. With `QUICK` errors a standard
error that is a third of what it should be passes in 0.03 % of the cases at the most, whatever the
noise; with `MANY`, one that is half of it in 0.1 % (of normal noise
one that is twice as large in as few).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.metrics import registry
from tests.contract import examples, forms, runs
from tests.contract.laws import ANY, NORMAL, missed
from tests.contract.truth import Form
from tests.fakes.few import few

QUICK, MANY = 100, 250
"""Independent errors of each column of figures, at least."""
FEW = 60
"""In place of `QUICK`, where a release has one of them: a third of a standard error passes there in
0.006 % of the cases if noise is normal, and in 15 % if it is Laplace's."""
RUNS = 18
"""Of each form, at least: intervals that hold together one by one are then told from joint ones."""

CASES = [(kind, name) for kind in registry.names() for name in forms.offered(kind)]
every_case = pytest.mark.parametrize(("kind", "name"), CASES, ids=map(" ".join, CASES))
# Of each kind one form at first, and all of them in `make verify`.
most_cases_later = pytest.mark.parametrize(
    ("kind", "name"), few(CASES, lambda case: case[0]), ids=map(" ".join, CASES)
)
SIZES = [(*case.values, QUICK) for case in few(CASES, lambda case: case[0]) if not case.marks]
SIZES += [pytest.param(*case, MANY, marks=pytest.mark.verify) for case in CASES]


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())


@pytest.mark.parametrize("kind", registry.names())
def test_every_form_has_an_example_with_a_truth(kind: str) -> None:
    said = forms.example(kind).forms
    assert said.keys() == forms.offered(kind).keys()
    assert all(bool(form.truths) != bool(form.refused) for form in said.values())


def asked(kind: str, name: str) -> tuple[Form, dict[str, Any]]:
    """A form, and all that it asks."""
    example = forms.example(kind)
    form = example.forms[name]
    return form, {**example.asked, **forms.offered(kind)[name], **form.asked}


def times(form: Form, size: int) -> int:
    """How many repetitions give so many independent errors of each column, and so many runs."""
    each = min(runs.independent(truth) for truth in form.truths)
    return max(RUNS, -(-(FEW if (each, size) == (1, QUICK) else size) // each))


@pytest.mark.parametrize(("kind", "name", "size"), SIZES)
def test_figures_are_true(kind: str, name: str, size: int) -> None:
    form, options = asked(kind, name)
    if form.refused:
        return
    repeat = runs.repeat_totals if name == forms.HORIZON else runs.repeat
    releases = repeat(kind, options, times(form, size), size)
    runs.require_true(form.truths, releases)


@every_case
def test_what_is_not_offered_is_refused_with_a_reason(kind: str, name: str, refused) -> None:
    form, options = asked(kind, name)
    if form.refused:
        refused(runs.words(kind, options, "out"), form.refused)


def test_errors_that_are_misstated_are_noticed() -> None:
    assert missed(QUICK, 3, ANY) < 4e-4
    assert missed(FEW, 3, NORMAL) < 7e-5
    assert missed(FEW, 3, ANY) < 0.16
    assert max(missed(MANY, 2, ANY), missed(MANY, 1 / 2, NORMAL)) < 1e-3
