"""Bugs of private transforms in somebody's pipeline: of draws, prices and windows."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DRAWN = ("tests/pipelines/rows/test_drawn_once.py",)
_PRICE = ("tests/pipelines/rows/test_one_price.py",)
_WINDOWS = ("tests/pipelines/rows/test_windows.py",)
_DRAWING = "transforms/elements/drawing.py"
_BUDGETS = "pipelines/rows/budgets.py"
_CALENDAR = "pipelines/rows/calendar.py"

MUTANTS = (
    Mutant(
        "noise-that-a-step-draws-anew",
        "A step that runs again draws anew, and a sink sees one count with two noises.",
        _DRAWING,
        "keyed_random(secret, self._name.encode(), repr(window).encode(), digest)",
        "SecureRandom()",
        _DRAWN,
        known_by="retried_step",
    ),
    Mutant(
        "noise-that-all-windows-share",
        "Windows of equal totals have the same noise.",
        _DRAWING,
        "self._name.encode(), repr(window).encode(), digest",
        "self._name.encode(), digest",
        _WINDOWS,
        known_by="own_noise",
    ),
    Mutant(
        "noise-that-all-metrics-share",
        "Metrics of equal totals have the same noise, and each is paid for as if it had its own.",
        _DRAWING,
        "self._name.encode(), repr(window)",
        "repr(window)",
        _DRAWN,
        known_by="two_metrics",
    ),
    Mutant(
        "noise-that-other-totals-share",
        "Totals that an engine has counted anew have the noise of the first: they show the truth.",
        _DRAWING,
        "repr(window).encode(), digest",
        "repr(window).encode()",
        _DRAWN,
        known_by="other_totals",
    ),
    Mutant(
        "secret-that-everybody-knows",
        "The secret of all noise is a constant.",
        _DRAWING,
        "self._rng.words(4).tobytes()",
        "bytes(32)",
        _DRAWN,
        known_by="secret_is_in_no_graph",
    ),
    Mutant(
        "each-transform-has-the-whole-budget",
        "Two transforms of a budget spend it twice.",
        _BUDGETS,
        '"epsilon": self.epsilon, "delta": self.delta,',
        '"epsilon": self.epsilon * len(metrics), "delta": self.delta,',
        _PRICE,
        known_by="half_the_budget",
    ),
    Mutant(
        "budget-that-is-never-closed",
        "A transform that comes after the price was solved has a price of its own.",
        _BUDGETS,
        "if self._closed or promised in self._promised:",
        "if promised in self._promised:",
        _PRICE,
        known_by="after_the_price",
    ),
    Mutant(
        "pipeline-that-runs-with-an-open-budget",
        "A pipeline is not asked whether its budgets are closed.",
        _BUDGETS,
        "        if not self._closed:\n            raise RequestError(_OPEN)\n",
        "        return\n",
        _PRICE,
        known_by="open_budget",
    ),
    Mutant(
        "run-that-pays-once-for-all",
        "A template that runs again finds what it has paid, and draws anew for nothing.",
        "pipelines/rows/steps.py",
        "fingerprint=run,",
        'fingerprint="run",',
        _PRICE,
        known_by="runs_twice",
    ),
    Mutant(
        "windows-without-rows-are-silent",
        "A window is published if somebody was in it, and so tells that.",
        _DRAWING,
        "        if self.windows is None:\n            return blocks\n",
        "        return blocks\n",
        _WINDOWS,
        known_by="without",
    ),
    Mutant(
        "noise-that-does-not-wait-for-its-price",
        "Windows are published that nobody has paid for, or that are outside the span.",
        _DRAWING,
        "if any(p for p, _ in parts) else []",
        "if parts else []",
        _WINDOWS,
        known_by="without_rows",
    ),
    Mutant(
        "session-windows-are-published",
        "Windows begin and end as users come and go.",
        _CALENDAR,
        "isinstance(fn, Sessions)",
        "isinstance(fn, ())",
        _WINDOWS,
        known_by="refused",
    ),
    Mutant(
        "early-panes-are-published",
        "A window is published several times at the price of one.",
        _CALENDAR,
        "windowing.triggerfn not in (DefaultTrigger(), AfterWatermark())",
        "windowing.triggerfn is None",
        _WINDOWS,
        known_by="refused",
    ),
    Mutant(
        "batches-are-counted",
        "Beam's own counters of batches tell how many rows there are.",
        "pipelines/rows/tables.py",
        "record_metrics=False",
        "record_metrics=True",
        _PRICE,
        known_by="no_counter",
    ),
    Mutant(
        "late-rows-publish-again",
        "A row that comes late publishes its window again.",
        _CALENDAR,
        "windowing.allowed_lateness != 0",
        "windowing.allowed_lateness < 0",
        _WINDOWS,
        known_by="refused",
    ),
)
