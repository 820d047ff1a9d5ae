"""Bugs of ledgers that would let a budget be spent twice."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ROLLBACK = ("tests/pipelines/test_ledger_rollback.py",)
_ATTEMPTS = ("tests/pipelines/test_ledger_attempts.py",)
_RUNNING = ("tests/end_to_end/test_running_plan.py",)

MUTANTS = (
    Mutant(
        "witness-not-asked",
        "A ledger is not held against its witness: an older copy has its budget once more.",
        "pipelines/ledger/book.py",
        'require_witnessed(heads, seen, f"its witness {place}", where)',
        "pass",
        _ROLLBACK,
    ),
    Mutant(
        "head-of-the-last-change-alone",
        "A head covers its own change and not those before it, so history can be rewritten.",
        "pipelines/ledger/chain.py",
        "return _keyed(key, head, link.id, link.digest)",
        "return _keyed(key, link.id, link.digest)",
        _ROLLBACK,
    ),
    Mutant(
        "head-without-a-key",
        "Heads are hashes without a key, so whoever rewrites a ledger makes them anew.",
        "pipelines/ledger/chain.py",
        "hmac.new(key, ",
        "hmac.new(bytes(32), ",
        _ROLLBACK,
    ),
    Mutant(
        "releases-not-asked",
        "A ledger is not held against releases that stand: its witness may be put back with it.",
        "pipelines/ledger/evidence.py",
        'require_witnessed(heads, seen, f"the release in {release.folder}", where)',
        "pass",
        _ROLLBACK,
    ),
    Mutant(
        "lost-release-is-no-matter",
        "A release that the ledger has and the folder lacks is taken for one that stands.",
        "pipelines/ledger/ledger.py",
        "            require_there(made)",
        "            pass",
        _ROLLBACK,
    ),
    Mutant(
        "overtaken-attempt-commits",
        "An attempt that was overtaken still changes the entry.",
        "pipelines/ledger/reservation.py",
        "if entry.attempt != mine and not (",
        "if False and not (",
        ("tests/pipelines/test_ledger_spending.py",),
    ),
    Mutant(
        "overtaken-worker-publishes",
        "A worker of an attempt that was overtaken is not told so.",
        "pipelines/ledger/held.py",
        " and entry.attempt == paid",
        " and 1 == paid",
        _ATTEMPTS,
    ),
    Mutant(
        "claim-of-another-draw",
        "Of several attempts in a bucket the last one's files stand among the first one's.",
        "pipelines/storage/claims.py",
        "        if own is not None:\n            return own\n        with",
        "        with",
        _ATTEMPTS,
    ),
    Mutant(
        "lost-run-pays-again",
        "A run that was killed is not gone on with: the next one pays once more.",
        "pipelines/ledger/outcomes.py",
        'is_lost(entry) and publication(entry) == "nothing"',
        "False",
        ("tests/pipelines/test_ledger_spending.py",),
    ),
    Mutant(
        "population-out-of-nothing",
        "A population that the ledger does not know has whatever budget the plan asks for.",
        "pipelines/ledger/ledger.py",
        "            require_declared(request, snapshot.populations, self.store.where)\n",
        "",
        ("tests/pipelines/test_ledger_population.py",),
    ),
    Mutant(
        "running-windows-at-no-price",
        "Windows whose noise goes on are never counted, not even the first.",
        "pipelines/ledger/permanent.py",
        'if release.noise == "fresh" or release.design is None or name not in known:',
        'if release.noise == "fresh" or (release.noise != "running" and name not in known):',
        _RUNNING,
        known_by="another_secret",
    ),
    Mutant(
        "another-secret-at-no-price",
        "Totals that begin anew from another secret are taken for those that were paid for.",
        "pipelines/plan/run.py",
        'hashlib.sha256("".join(secret for secret, _ in remembered).encode()).hexdigest()',
        '"f00d"',
        _RUNNING,
        known_by="another_secret",
    ),
    Mutant(
        "running-window-not-kept",
        "What a window drew is forgotten: run again, it is drawn again.",
        "pipelines/running/series.py",
        "            write(place.secret, kept.written(), secret=True)\n    return kept.up_to",
        "    return kept.up_to",
        _RUNNING,
        known_by="drawn_once",
    ),
    Mutant(
        "drawn-window-returned",
        "A run that failed gets its price back, and its rows are in all later totals.",
        "pipelines/plan/run.py",
        "            right.keep()",
        "            pass",
        _RUNNING,
        known_by="has_paid",
    ),
    Mutant(
        "rows-in-two-windows",
        "Windows that share files are both added at the price of one.",
        "pipelines/ledger/rules.py",
        'if (request.noise, request.scope) == ("running", "user per window"):',
        "if False:",
        _RUNNING,
        known_by="overlap",
    ),
)
