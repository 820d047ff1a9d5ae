"""A window of a plan as all three parties see it: by the plan alone, without a look at any log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mechanisms.channel import Mechanism
from mechanisms.counters.choose import SlottedCounters
from mechanisms.wire.report import MOST_SLOTS, WORDS, Form
from mechanisms.wire.screening import Expected
from pipelines.errors import RequestError
from pipelines.metrics.metric import Metric, enrolled, slots
from pipelines.plan.document import SEED, PlanDocument
from pipelines.plan.job import PlanJob, unread_job
from pipelines.plan.metrics import mark_of_design, mark_of_reports
from pipelines.plan.parts import MetricRequest
from pipelines.request.spans import seconds_of
from transforms.windows import SECOND, Tumbling, now


@dataclass(frozen=True)
class Split:
    """What a shuffler and a collector of a window expect, and what its clients run.

    Attributes:
        job: the window, prepared without a look at any file.
        tokens: what its shuffler says of the tokens that reports came with: checked or none; empty
            where the plan asks for none, or it is not the shuffler's.
    """

    job: PlanJob
    tokens: Literal["", "checked", "none"] = ""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """In the order of the plan."""
        return self.job.metrics

    @cached_property
    def fingerprint(self) -> bytes:
        """Of the plan, what it has come to, and the window: 16 bytes that every report carries."""
        return mark_of_reports(self.job.plan, self.job.window, self.metrics)

    @property
    def period(self) -> str:
        """The part of the time that a report made now is of: in a stream the clock says which."""
        plan, window = self.job.plan, self.job.window
        if plan.stream is None or window != SEED:
            return window
        windows = Tumbling(seconds_of(plan.stream.window) * SECOND)
        return windows.name(windows.start(now()))

    def noise_fingerprint(self, place: int) -> bytes:
        """What permanent noise of a metric depends on, day after day: 16 bytes.

        Another mechanism needs other noise: two that shared theirs would not simply add up.
        """
        # Of this metric alone, so that a change of another one does not draw, and charge, noise
        # anew.
        return mark_of_design(self.job.plan, self.job.window, self.metrics[place : place + 1])

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What the clients of each metric run."""
        return tuple(metric.mechanism for metric in self.metrics)

    @cached_property
    def counters(self) -> tuple[SlottedCounters, ...]:
        """Of each metric, where dummies are the noise; none where each report is noisy."""
        return tuple(metric.counters for metric in self.metrics if metric.counters is not None)

    @property
    def strings(self) -> bool:
        """Whether metrics are of strings that are sealed whole."""
        return self.handed.crowd

    @property
    def handed(self) -> Form:
        """Of what the shuffler of noisy counters sends on; strings have the room of the longest."""
        sizes = [slots(m) // m.crowds.strings for m in self.metrics if m.crowds is not None]
        return Form(True, True, slots=max(sizes), crowd=True) if sizes else WORDS

    def batches(self, place: int) -> int:
        """How many batches a metric's shuffler holds to min_reports, one for each public group."""
        return self.metrics[place].batches

    def expected(self, form: Form) -> Expected:
        """What a party accepts that reads reports of one form."""
        if not self.counters:
            return Expected(self.fingerprint, self.mechanisms, form)
        widths = tuple(form.slots if form.crowd else slots(metric) for metric in self.metrics)
        return Expected(self.fingerprint, (), form, widths)

    def form(self, sealed: bool, places: Iterable[int], twice: bool = False) -> Form:
        """Of the reports of some metrics; where they differ in width, that of the first."""
        width = next((slots(self.metrics[place]) for place in places), 0)
        return Form(sealed, slots=width, twice=twice)

    def place(self, name: str) -> int:
        """Where a metric stands in the plan.

        Raises:
            RequestError: nowhere.
        """
        names = [metric.name for metric in self.metrics]
        if name not in names:
            raise RequestError(f"--metric: the plan has no {name!r}; it has: {', '.join(names)}")
        return names.index(name)


def split(plan: PlanDocument, window: str) -> Split:
    """A window, if it can be divided among three parties.

    Args:
        plan: what is collected.
        window: the part of the time.

    Raises:
        RequestError: a metric cannot be divided, or cannot be served as the plan says.
    """
    for request in plan.metrics:
        _require_least_batch(plan, request, window)
    parts = Split(unread_job(plan, window, clients=True))
    for metric in parts.metrics:
        if metric.options.one_job_only is not None:
            raise RequestError(f"metric {metric.name}: {metric.options.one_job_only}")
        if metric.undivided is not None and metric.counters is None:
            raise RequestError(_whole(metric.name, metric.undivided))
    _require_alike(parts)
    reports = len(parts.job.accounts)  # metrics among which units are divided share one
    if plan.tokens is not None and plan.tokens < reports:
        raise RequestError(
            f"tokens: a user sends {reports} reports here, each of which takes a token: say "
            f"tokens: {reports}, or more"
        )
    return parts


def _require_alike(parted: Split) -> None:
    """Refuse reports that are shuffled by different rules; and endless ones."""
    for metric in parted.metrics if parted.counters else ():
        counters = metric.counters
        if counters is None:
            raise RequestError(
                f"metric {metric.name}: its reports go on whenever enough have come, and those of "
                "noisy counters once, whoever has come: give it a plan of its own, of the same "
                "population, and the counters' plan `neighbours: replace`: the ledger then adds "
                "both up"
            )
        if enrolled(metric) is not None and metric.unit != "user":
            raise RequestError(
                f"metric {metric.name}: where devices draw the dummies each of them sends one "
                "report of all its rows, and of none: name a user_column, with a unit of users"
            )
        if metric.crowds is None and parted.strings:
            raise RequestError(
                f"metric {metric.name}: words of counters and strings that are sealed whole are "
                "handed on by different rules: give it a plan of its own, of the same population"
            )
        if slots(metric) > MOST_SLOTS:
            raise RequestError(
                f"metric {metric.name}: a report has room for {MOST_SLOTS:,} messages, and this "
                f"one has {slots(metric):,}: ask for fewer digits, values, columns or bytes"
            )


def require_sealable(parted: Split) -> None:
    """Refuse seals where the shuffler has to see something of the message.

    Raises:
        RequestError: a metric has public groups, each of which needs min_reports.
    """
    for place, metric in enumerate(parted.metrics):
        if parted.batches(place) > 1:
            raise RequestError(
                f"metric {metric.name}: sealed reports cannot be divided among clients, shuffler "
                "and collector: a report names its public group, and a shuffler that cannot read "
                "it sends on groups below min_reports; leave out the seals, or let groups be "
                "private (groups_public: false)"
            )


def require_twice(parted: Split, sealed: bool, flag: str) -> None:
    """Refuse a second shuffler where there is nothing for it to mix.

    Raises:
        RequestError: reports are not sealed, or dummies are the noise.
    """
    if parted.counters:
        raise RequestError(
            f"{flag}: two shufflers in a row are for metrics of each-report: here the one shuffler "
            "draws dummies, or counts what it is handed"
        )
    if not sealed:
        raise RequestError(f"{flag}: name the collector's key, too: --seal PUBLIC.pem")


def require_counters(parted: Split, seals: Sequence[str], flag: str) -> None:
    """Refuse what would let somebody see, or draw, more than is paid for.

    Args:
        parted: the window.
        seals: key files that were named.
        flag: by which they were.

    Raises:
        RequestError: there is none, or more than one where noise was drawn for one.
    """
    if not seals:
        raise RequestError(
            f"{flag} is missing: metric {parted.metrics[0].name}: nothing that people send is "
            "randomised where dummies are the noise: unsealed reports would tell the shuffler each "
            "value"
        )
    if len(seals) > 1 and flag == "--seal":
        raise RequestError(
            "--seal: one key a window where dummies are the noise: which key a word is sealed to "
            "can be seen, so every key would need dummies of its own"
        )


def _require_least_batch(plan: PlanDocument, request: MetricRequest, window: str) -> None:
    """Refuse what clients and collector would each settle by files that the other cannot see."""
    options = plan.options(request, window)
    # Noisy counters hide how many report, and ask for no least number.
    if not options.hides_presence and getattr(options, "min_reports", None) is None:
        raise RequestError(
            f"metric {request.name}: min_reports is missing: clients choose their noise for the "
            "least batch, long before anybody counts reports; say in the plan how many there must "
            "be"
        )


def _whole(name: str, reason: str) -> str:
    """That a metric cannot be divided, and what to do."""
    return (
        f"metric {name}: cannot be divided among clients, shuffler and collector: {reason}, "
        "or leave it to `hushbeam run`"
    )
