"""What noises say of a workload is what the forms are: those that are served have a truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.metrics import registry
from tests.contract import examples, forms, runs, served


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())


def column_of(name: str) -> str | None:
    """The column of a form; None of one that no noise alone decides."""
    return served.FORMS.get(name.rpartition(", ")[2])


@pytest.mark.parametrize("kind", registry.names())
def test_forms_are_offered_and_refused_as_noises_say(kind: str) -> None:
    rows = {row: asked.get("search") for row, (of, asked) in served.ROWS.items() if of == kind}
    for search in {*rows.values()}:
        alike = [row for row, own in rows.items() if own == search]
        taken = {
            column
            for row in alike
            for column in served.COLUMNS
            if not served.objection(row, column)
        }
        offered = {
            column_of(name): form
            for name, form in forms.example(kind).forms.items()
            if search is None or name.startswith(search)
        }
        offered.pop(None, None)
        assert taken == {column for column, form in offered.items() if form.truths}
        for column, form in offered.items():
            said = [str(served.objection(row, str(column))) for row in alike]
            assert not form.refused or all(form.refused in why for why in said)


def test_every_noise_has_a_column_and_every_kind_a_row() -> None:
    assert set(served.FORMS.values()) == set(served.COLUMNS)
    assert {kind for kind, _ in served.ROWS.values()} == {*registry.names()}
