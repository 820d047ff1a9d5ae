"""GoogleSQL's page on private aggregates: each of its examples runs, or is refused with what works.

The structure of https://cloud.google.com/bigquery/docs/reference/standard-sql/aggregate-dp-functions
and of its older forms, with other names, over a table that is made up.
"""

from __future__ import annotations

import re

import pytest

from pipelines.errors import RequestError
from pipelines.query.clause import QueryTerms
from pipelines.query.compiler import compiled

OPTIONS = "OPTIONS(epsilon=10, delta=.01, max_groups_contributed=1, privacy_unit_column=id)"
NOISELESS = OPTIONS.replace("10", "1e20")
GROUP, ROW = "contribution_bounds_per_group => (0,100)", "contribution_bounds_per_row => (0,100)"
DECLARED = QueryTerms(groups={"tool": '["saw", "nail", "plane"]'})


def private(aggregate: str, options: str = OPTIONS, clause: str = "DIFFERENTIAL_PRIVACY") -> str:
    return (
        f"SELECT\n  WITH {clause}\n    {options}\n    tool,\n    {aggregate} wanted\n"
        "FROM workshop\nGROUP BY tool;"
    )


@pytest.mark.parametrize(
    ("aggregate", "kind"),
    [
        (f"AVG(pieces, {GROUP})", "mean"),
        (f"VAR_POP(pieces, {GROUP})", "variance"),
        (f"SUM(pieces, {GROUP})", "sum"),
        (f"COUNT(tool, {GROUP})", "count"),
        (f"COUNT(*, {GROUP})", "count"),
        (f"PERCENTILE_CONT(pieces, 0.5, {ROW})", "distribution"),
    ],
)
def test_examples_with_bounds_run_where_groups_are_declared(aggregate: str, kind: str) -> None:
    made = compiled(private(aggregate), DECLARED)
    assert [metric["kind"] for metric in made.metrics] == [kind]
    assert made.terms.unit == "id"
    if kind == "variance":
        with pytest.raises(RequestError, match=r"is of groups that are declared: .*UNNEST"):
            compiled(private(aggregate), QueryTerms())
    else:
        assert compiled(private(aggregate), QueryTerms()).metrics[0]["group"] == ["tool"]
    public = private(aggregate, OPTIONS[:-1] + ", group_selection_strategy=PUBLIC_GROUPS)")
    with pytest.raises(RequestError, match=r"line 7, column 10: .*UNNEST.*AS tool USING \(tool\)"):
        compiled(public, QueryTerms())


def test_the_example_of_public_groups_runs_as_it_stands() -> None:
    options = OPTIONS[:-1] + ", group_selection_strategy=PUBLIC_GROUPS)"
    join = (
        "FROM workshop RIGHT OUTER JOIN (SELECT DISTINCT tool FROM UNNEST(['saw', 'nail']) AS tool)"
    )
    text = private(f"AVG(pieces, {GROUP})", options).replace(
        "FROM workshop", f"{join} USING (tool)"
    )
    made = compiled(text, QueryTerms())
    assert made.metrics[0]["group"] == ['tool=["saw", "nail"]']


@pytest.mark.parametrize(
    ("text", "works"),
    [
        (private("AVG(pieces)", NOISELESS), "an epsilon above 60"),
        (private("COUNT(*)", NOISELESS), "an epsilon above 60"),
        (private("COUNT(*)"), r"COUNT\(\*, contribution_bounds_per_group => \(0, 10\)\)"),
        (private("AVG(pieces)"), r"AVG\(x, contribution_bounds_per_group => \(low, high\)\)"),
        (private("VAR_POP(pieces)"), r"VAR_POP\(x, contribution_bounds_per_group => \(low, high"),
        (
            private("ANON_AVG(pieces CLAMPED BETWEEN 0 AND 100)", clause="ANONYMIZATION"),
            "write AVG",
        ),
        (private("ANON_COUNT(*)", clause="ANONYMIZATION"), "write COUNT"),
        (private("ANON_SUM(pieces CLAMPED BETWEEN 0 AND 9)", clause="ANONYMIZATION"), "write SUM"),
        (private("ANON_PERCENTILE_CONT(pieces, 0.5 CLAMPED BETWEEN 0 AND 9)"), "PERCENTILE_CONT"),
        (private("ANON_QUANTILES(pieces, 4 CLAMPED BETWEEN 0 AND 9)"), "APPROX_QUANTILES"),
        (private("ANON_VAR_POP(pieces CLAMPED BETWEEN 0 AND 9)"), "VAR_POP"),
        (private("ANON_STDDEV_POP(pieces)"), "STDDEV_POP"),
    ],
)
def test_the_other_examples_are_refused_with_the_line_that_works(text: str, works: str) -> None:
    with pytest.raises(RequestError) as caught:
        compiled(text, DECLARED)
    said = str(caught.value)
    assert re.match(r"query, line \d+, column \d+: ", said)
    assert re.search(works, said)
    assert "\n" not in said


def test_a_quantile_of_all_runs() -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} PERCENTILE_CONT(pieces, 0.5, {ROW}) FROM w"
    assert compiled(text, QueryTerms()).metrics[0]["quantile"] == 0.5
