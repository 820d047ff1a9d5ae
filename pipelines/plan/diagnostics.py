"""Counts that no population makes likely: released, and only with a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton

from mechanisms.channel import Mechanism
from mechanisms.heavy_hitters.plausibility import chance
from pipelines.metrics.metric import Content
from pipelines.views import facts
from pipelines.views.headline import promised_words
from transforms.collector.collect_counts import Counted, CountMessages
from transforms.elements.combine_all import CombineAll

FALSE_ALARM = 1e-6  # how often honest clients may be doubted
_LARGEST = 1 << 22  # codes that are counted for the test's sake
_PAGE = "report.html"


@dataclass
class Diagnostic(beam.PTransform):
    """`Content`s in, and out again, with a warning if their reports cannot be honest clients'.

    Attributes:
        mechanism: what the clients were to run.
        messages: blocks of the messages that the contents were made of.
    """

    mechanism: Mechanism
    messages: beam.PCollection

    def expand(self, contents: beam.PCollection) -> beam.PCollection:
        if not self.mechanism.codes <= _LARGEST:
            return contents
        chances = (
            self.messages
            | "Count for the test" >> CombineAll(CountMessages(self.mechanism))
            | "Test" >> beam.Map(_chance, self.mechanism).with_output_types(float)
        )
        return contents | "Warn" >> beam.ParDo(WarnDoFn(), AsSingleton(chances))


def _chance(counted: Counted, mechanism: Mechanism) -> float:
    """How likely these counts are at most, whatever clients hold."""
    return chance(mechanism, counted.counts) if np.any(counted.counts) else 1.0


@typehints.with_input_types(Content, float)
@typehints.with_output_types(Content)
class WarnDoFn(beam.DoFn):
    """Puts the warning first where there is reason for it."""

    def process(self, content: Content, likely: float) -> Iterator[Content]:
        yield warned(content) if content.files and likely < FALSE_ALARM else content


def warned(content: Content) -> Content:
    """A release that says of itself that it cannot be trusted."""
    warning = (
        "These reports cannot all be honest clients': whatever people hold, counts as far out come "
        f"about with a probability below {FALSE_ALARM:g}. Somebody has made reports up, or clients "
        "run something else than this plan. What is promised of a single report holds for whoever "
        "ran the plan's client; what the shuffler adds holds only if min_reports of these reports "
        "are such clients', which nobody can tell now. The estimates cannot be trusted, and "
        "neither can their errors."
    )
    marked = reworded(content, {}, (warning,))
    return marked._replace(statement=marked.statement | {"doubts": [warning]})


def reworded(content: Content, instead: Mapping[str, str], first: Sequence[str] = ()) -> Content:
    """A release whose words, in its statement and on its page, are others; of none it has none.

    Args:
        content: of a metric.
        instead: sentence -> what is said in its place.
        first: what is said before everything else.
    """
    if not content.files:
        return content
    before = content.statement["in_words"]
    after = [*first, *(instead.get(text, text) for text in before)]
    page, (begin, *_) = content.files[_PAGE], promised_words(content.statement)
    # One by one: where there are cautions, the page has these elsewhere.
    for old, new in (
        {begin: [*first, begin]} | {old: [new] for old, new in instead.items()}
    ).items():
        page = page.replace(_paragraphs([old]), _paragraphs(new))
    said = content.statement | {"in_words": after}
    return content._replace(files=content.files | {_PAGE: page}, statement=said)


def _paragraphs(texts: Sequence[str]) -> bytes:
    """Sentences as every page has them."""
    return facts.paragraphs(texts).encode()
