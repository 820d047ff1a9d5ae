"""Bugs of accountants and of the ledger."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "accountant-n-plus-one",
        "A shuffled batch of n reports is accounted as one of n + 1.",
        "mechanisms/privacy/blanket.py",
        "max(dominated_delta(law, n, epsilon, cells)",
        "max(dominated_delta(law, n + 1, epsilon, cells)",
        ("tests/mechanisms/privacy/test_blanket.py",),
        known_by="enumerated",
    ),
    Mutant(
        "search-returns-the-exposed-end",
        "A search for parameters returns the end of its bracket that misses the target.",
        "mechanisms/privacy/search.py",
        "    return private, exposed",
        "    return exposed, private",
        ("tests/mechanisms/privacy/test_dummies_accounting.py",),
    ),
    Mutant(
        "one-direction",
        "The profile of a pair of laws is that of one direction alone.",
        "mechanisms/privacy/loss.py",
        "return _worst(_chain(first, second), _chain(second, first))",
        "return _chain(first, second)",
        ("tests/mechanisms/privacy/test_loss.py",),
    ),
    Mutant(
        "releases-composed-once",
        "Of several releases of one kind only one is composed.",
        "mechanisms/privacy/accountant.py",
        "self_compose(times, tail)",
        "self_compose(1, tail)",
        ("tests/pipelines/test_ledger_accounting.py",),
    ),
    Mutant(
        "stored-curve-rounded-to-nearest",
        "A curve's deltas are rounded to nearest in the ledger, so half of them are too small.",
        "pipelines/plan/profiles.py",
        "upward(delta, _DELTA_DIGITS)",
        'float(f"{delta:.{_DELTA_DIGITS - 1}e}")',
        ("tests/pipelines/test_plan_profiles.py",),
    ),
    Mutant(
        "joint-account-forgets-a-metric",
        "The epsilons of a plan's metrics are chosen as if its last metric revealed nothing.",
        "pipelines/plan/joint.py",
        "    promised = [metric.promises[0] for metric in metrics]",
        "    metrics = metrics[:-1]\n    promised = [metric.promises[0] for metric in metrics]",
        ("tests/pipelines/test_plan_joint.py",),
    ),
    Mutant(
        "budget-overdrawn-by-the-accountant",
        "Releases fit whose epsilon together is 1 % above the budget.",
        "pipelines/ledger/accounting.py",
        "_composed(kinds).delta(budget.epsilon) <=",
        "_composed(kinds).delta(1.01 * budget.epsilon) <=",
        ("tests/pipelines/test_ledger_accounting.py",),
    ),
    Mutant(
        "budget-overdrawn-by-the-sum",
        "Releases fit whose epsilons add up to 1 % more than the budget.",
        "pipelines/ledger/accounting.py",
        "epsilon <= Fraction(repr(budget.epsilon))",
        "epsilon <= Fraction(repr(1.01 * budget.epsilon))",
        ("tests/pipelines/test_ledger_accounting.py",),
    ),
    Mutant(
        "reservations-cost-nothing",
        "A release that was begun does not count until it is committed, so two fit for one.",
        "pipelines/ledger/entries.py",
        'frozenset({"reserved", "committed", "spent"})',
        'frozenset({"committed", "spent"})',
        ("tests/pipelines/test_ledger_spending.py",),
    ),
    Mutant(
        "overlapping-windows-apart",
        "Windows of two plans that overlap are held to be about different users.",
        "pipelines/ledger/spans.py",
        "return one.span is None or other.span is None or one.span.overlaps(other.span)",
        "return False",
        ("tests/pipelines/test_ledger_spans.py",),
    ),
)
