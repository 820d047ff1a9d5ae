"""Bugs in what readers see: pages and sites."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_READ = ("tests/pipelines/test_read_pages.py",)

MUTANTS = (
    Mutant(
        "a-list-on-a-page-that-is-not-spread",
        "The first page of a site says [object HTMLElement] in the place of its cards.",
        "pipelines/site/app.js",
        "put(place, cards, data.accounts.map(budget));",
        "place.append(cards, data.accounts.map(budget));",
        ("tests/pipelines/site/test_build.py",),
        known_by="one_function",
    ),
    Mutant(
        "an-axis-far-beyond-its-figures",
        "A picture of means has an axis that ends far beyond all that is drawn.",
        "pipelines/views/pictures.py",
        "scale = AxisScale.over(lengths, low, high,",
        "scale = AxisScale.over(lengths, low, 30 * high,",
        _READ,
        known_by="vector-mean",
    ),
    Mutant(
        "a-page-titled-by-its-commands-help",
        "A page's title is the line that lists its command, and says nothing of what was counted.",
        "pipelines/metrics/metric.py",
        "**self.heading.stated}",
        '**self.heading.stated, "title": self.options.brief}',
        _READ,
        known_by="sum",
    ),
    Mutant(
        "noise-as-python-writes-it",
        "How a release was made is told by the classes of the program.",
        "mechanisms/counters/design.py",
        '"noise": recorded(self.dummies)',
        '"noise": {"law": repr(self.dummies)}',
        _READ,
        known_by="sum",
    ),
    Mutant(
        "a-quantile-shown-as-a-share",
        "The first figure of a distribution is a bin's share, and no number of the column.",
        "pipelines/metrics/statistics/distribution.py",
        '{"table": QUANTILES, "rows": MIDDLE, "picture": BARS if self.domains else LINE}',
        '{"table": BINS, "rows": "largest"}',
        _READ,
        known_by="distribution",
    ),
    Mutant(
        "the-noisiest-group-first",
        "Of the means of groups the largest comes first: mostly that of the fewest.",
        "pipelines/views/headline.py",
        "KNOWN = schema.AVERAGES",
        "KNOWN = frozenset()",
        ("tests/pipelines/site/test_build.py",),
        known_by="comes_first",
    ),
    Mutant(
        "a-caution-that-noise-brings",
        "Of nobody one small release in forty says that many users had more than was counted.",
        "pipelines/metrics/counting/by_counters.py",
        "truncation(self, evidence, confidence)",
        "truncation(self, evidence, 0.95)",
        ("tests/end_to_end/test_truncation.py",),
        known_by="nobody",
    ),
    Mutant(
        "a-factor-rounded-down",
        "The one sentence of promise says a factor that the release does not keep to.",
        "pipelines/wording.py",
        'return f"{upward(math.exp(epsilon), 3):,.10g}"',
        "return f\"{float(f'{math.exp(epsilon) / 1.02:.3g}'):,.10g}\"",
        _READ,
        known_by="sum",
    ),
    Mutant(
        "a-year-of-one-window",
        "The sheet of a plan says that a year costs what a window does.",
        "pipelines/plan/review.py",
        "times * windows for one, times",
        "times for one, times",
        ("tests/pipelines/test_review.py",),
        known_by="a_year_costs",
    ),
)
