"""Bugs of queries: of what they may be made of, what they mean, and what rows cost."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_REFUSED = ("tests/pipelines/query/test_refusals.py",)
_MEANT = ("tests/pipelines/query/test_compiler.py",)
_SHOWN = ("tests/pipelines/query/test_answer.py",)
_ROWS = ("tests/transforms/encoders/test_rows_alone.py",)

MUTANTS = (
    Mutant(
        "a-quotient-of-an-exact-divisor",
        "An interval of a quotient leaves the noise of what it is divided by out.",
        "pipelines/query/answer.py",
        "ratios = quotients(a, b, a_error, b_error, far, most=np.inf)",
        "ratios = quotients(a, b, a_error, 0 * b_error, far, most=np.inf)",
        _SHOWN,
        known_by="quotient",
    ),
    Mutant(
        "a-sample-as-a-population",
        "VARIANCE is that of a population.",
        "pipelines/query/answer.py",
        "            if figure.sample:",
        "            if False:",
        _SHOWN,
        known_by="samples",
    ),
    Mutant(
        "rows-that-count-for-themselves-are-not-told-to-the-noise",
        "Noise of the job is of one row of a unit, however many rows count.",
        "pipelines/metrics/counting/design.py",
        "            options, amounts.levels, reporting.sides, sealed, parts=amounts.parts, **more",
        "            options, amounts.levels, reporting.sides, sealed, parts=amounts.parts,\n"
        '            **more | {"rows": 1},',
        ("tests/pipelines/test_job_sensitivity.py",),
        known_by="more_than_is_paid_for and True-7",
    ),
    Mutant(
        "a-signed-total-that-does-not-go-from-end-to-end",
        "What a signed total shows is taken from two that move by half as much each.",
        "mechanisms/counters/job_noise.py",
        "return Moves(2 * shared, slots, 2 * most, ",
        "return Moves(2 * shared, 2 * slots, most, ",
        ("tests/pipelines/test_job_sensitivity.py",),
        known_by="is_in_the_profile",
    ),
    Mutant(
        "nodes-that-nobody-compiles",
        "A node of a query's tree that is not in the list is let through.",
        "pipelines/query/allowed.py",
        "        if type(node) not in ALLOWED:\n            refuse(node)\n",
        "        if type(node) not in ALLOWED:\n            continue\n",
        _REFUSED,
    ),
    Mutant(
        "arguments-that-nobody-compiles",
        "An argument of a node, such as a sample of a table, is let through and does nothing.",
        "pipelines/query/allowed.py",
        "and name not in names:",
        "and False:",
        _REFUSED,
    ),
    Mutant(
        "units-are-compared",
        "WHERE, joins and subqueries may look at who somebody is.",
        "pipelines/query/compiler.py",
        "if terms.reads_unit(row):",
        "if False:",
        _REFUSED,
        known_by="forbidden",
    ),
    Mutant(
        "texts-end-where-they-like",
        "A quote in a literal ends the text of an expression.",
        "pipelines/query/rows.py",
        """value.replace("'", "''")""",
        "value",
        _MEANT,
    ),
    Mutant(
        "a-row-costs-what-a-user-does",
        "Noise of totals in which several rows of a user count is that of one of them.",
        "mechanisms/counters/job_totals.py",
        "return [*(one.times(times) for one in moves[:own]), *moves[own:]]",
        "return moves",
        ("tests/mechanisms/counters/test_job_totals.py",),
        known_by="rows_that_count",
    ),
    Mutant(
        "all-rows-of-a-user-count",
        "Of a user all rows count, however few may.",
        "mechanisms/counters/contributions.py",
        "kept = place < k\n        where, order",
        "kept = place < 2 * k\n        where, order",
        _ROWS,
    ),
    Mutant(
        "the-first-rows-of-a-user-count",
        "Which rows of a user count is not drawn: the first ones do.",
        "mechanisms/counters/contributions.py",
        "np.lexsort((rng.words(users.size), users))",
        "np.lexsort((np.arange(users.size), users))",
        _ROWS,
    ),
    Mutant(
        "undeclared-rows-take-a-place",
        "Rows of no declared group are counted for nothing, but take the place of others.",
        "transforms/encoders/groups.py",
        "groups < self.declared if self.drops and self.domains else None",
        "None",
        _ROWS,
    ),
    Mutant(
        "intervals-of-chosen-rows-are-those-of-all",
        "Rows that figures have chosen have intervals that hold for each row by itself.",
        "pipelines/query/answer.py",
        'f"{end[1:]}_simultaneous" if self.selects else ""',
        '""',
        _SHOWN,
    ),
    Mutant(
        "who-lacks-one-number-lacks-an-average",
        "Users with one bad row among many are said to have no value that can be used.",
        "transforms/encoders/reports.py",
        "if self.averaged:  # so that shares are of units that are counted once",
        "if False:",
        _ROWS,
    ),
    Mutant(
        "second-rounds-compose-by-curves-of-answers",
        "A ledger composes a curve that follows from what a first round has answered.",
        "pipelines/plan/run.py",
        "if any(query.chosen for query in plan.queries):",
        "if False:",
        ("tests/end_to_end/test_query.py",),
        known_by="first_round",
    ),
    Mutant(
        "averages-of-rows-in-the-clause",
        "An average within GoogleSQL's clause is of rows, and not of what users have on average.",
        "pipelines/query/aggregates.py",
        "if per == PER_ROW or self._terms.unit is None:",
        "if True:",
        _MEANT,
    ),
)
