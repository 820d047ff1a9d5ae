"""What may be spent: a request held against the entries of a ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.errors import RequestError, WithheldError
from pipelines.ledger.accounting import Losses, fits, largest_share, total
from pipelines.ledger.entries import Budget, Entry, Loss, Noise, Population, Scope
from pipelines.ledger.listing import Entries
from pipelines.ledger.spans import PASS, Span, meet
from pipelines.wording import number_of, upward


class BudgetExceeded(WithheldError):
    """The release would cost more than is left; nothing was read."""


class InProgressError(WithheldError):
    """Somebody else is making this very release."""


@dataclass(frozen=True)
class Spend:
    """A release that someone wants to make, and its price.

    Attributes:
        collection: what is collected, or a name of its own for what a command makes alone.
        version: of the plan; a change of plan is a new version.
        fingerprint: of the plan. The same window of the same fingerprint is the same release.
        window: the part of the time it is about; of one plan, windows of different names must not
            overlap, unless their times or files tell.
        scope: "user" if the same users come in every window, "user per window" if a unit is a
            user's contribution to one window.
        budget: the most that a unit may lose.
        losses: what each metric reveals, all about the same unit. Of a release that has a local
            and a shuffle guarantee, the one that the budget is about.
        output: the folder to publish in.
        metrics: their names.
        profiles: none, or for each loss the whole curve behind it.
        span: the time of the window, if that is known.
        design: the fingerprint of the plan and of the mechanisms it has come to.
        files: digests of what it reads (`spans.digests`), if that is known.
        noise: permanent or running if the losses are those of all windows of the plan together.
        population: to whom the budget belongs; by default the collection's name.

    Raises:
        ValueError: there is no loss, one is unbounded, or their units differ.

    >>> day = Guarantee("shuffle", epsilon=0.1, delta=1e-8, unit="user", how="enumeration")
    >>> request = Spend("trips", 1, "f00d", "2026-11-20", "user",
    ...                 Budget(epsilon=2.5, delta=1e-6), (day,), "out/2026-11-20")
    >>> request.unit
    'user'
    """

    collection: str
    version: int
    fingerprint: str
    window: str
    scope: Scope
    budget: Budget
    losses: tuple[Guarantee, ...]
    output: str
    metrics: tuple[str, ...] = ()
    profiles: tuple[PrivacyLoss, ...] = ()
    span: Span | None = None
    design: str | None = None
    files: tuple[str, ...] | None = None
    noise: Noise = "fresh"
    population: str | None = None

    def __post_init__(self) -> None:
        if not self.losses or len({loss.unit for loss in self.losses}) != 1:
            raise ValueError("a release has losses, all about the same unit")
        if len(self.profiles) not in (0, len(self.losses)):
            raise ValueError("there must be a profile for every loss, or none")
        _ = self.records  # a loss without a bound is refused here

    @property
    def people(self) -> str:
        """The population: whatever was published about it composes."""
        return self.population or self.collection

    @property
    def whose(self) -> str:
        """The population in words."""
        alone = self.people == self.collection
        return f"{'collection' if alone else 'population'} {self.people!r}"

    @property
    def unit(self) -> str:
        """Whose contribution the losses are about."""
        return self.losses[0].unit

    @property
    def records(self) -> tuple[Loss, ...]:
        """The losses as a ledger keeps them."""
        profiles: Sequence[PrivacyLoss | None] = self.profiles or (None,) * len(self.losses)
        return tuple(map(Loss.of, self.losses, profiles))


Priced = Entry | Spend
"""A release, made or wanted."""


def together(entries: Entries, release: Priced, scope: Scope) -> Entries:
    """Those entries of a collection that count, and whose losses fall on a release's units.

    Args:
        entries: of one collection.
        release: whose units.
        scope: of the collection. Where a unit is a user's part in one window, those windows count
            that overlap the release's: versions of a plan may cut time into other lengths, and
            one version may name parts of each other (2026-11 and 2026-11-20), or the same files.
    """
    counted = entries.counted
    if scope == "user":
        return counted
    near = counted.near(release.window, release.span, release.files or ())
    meets = np.array([meet(entry, release) for entry in near], bool)
    return replace(near, places=near.places[meets])


def units(entries: Entries, request: Spend) -> list[Entries]:
    """The accounts that a release is booked on; each must hold it.

    It falls on the units of its own window, and of every earlier one that overlaps it: an earlier
    window may be longer, and overlap others besides.

    Args:
        entries: of the collection.
        request: to spend.

    Returns:
        For each of those windows the entries that count in it, the request's own first.
    """
    own = together(entries, request, request.scope)
    if request.scope == "user":
        return [own]
    # An earlier window may meet others that this one does not, and its users' budget must hold,
    # too.
    theirs = [together(entries, unit, request.scope) for unit in own]
    accounts = {account.places.tobytes(): account for account in (own, *theirs)}
    return list(accounts.values())


def losses_of(entries: Entries, *more: Priced) -> Losses:
    """What releases reveal, and how often each loss comes.

    Args:
        entries: that count.
        more: releases besides.
    """
    losses: Losses = Counter()
    for release, times in once([*entries.kinds(), *((one, 1) for one in more)]):
        for loss in release.records:
            losses[loss] += times
    return losses


def population_of(name: str, populations: Mapping[str, Population], where: str) -> Population:
    """What a ledger knows of a population.

    Raises:
        RequestError: nothing.
    """
    if name not in populations:
        raise RequestError(
            f"--ledger: {where} has no population {name!r}: `hushbeam ledger init` gives it a "
            "budget there"
        )
    return populations[name]


def require_declared(request: Spend, populations: Mapping[str, Population], where: str) -> None:
    """Refuse a release about people to whom the ledger gives no budget, or another one.

    Args:
        request: to spend.
        populations: by name.
        where: the ledger's name.

    Raises:
        RequestError: the population is unknown, or of another unit, or of a smaller budget.
    """
    known = population_of(request.people, populations, where)
    if (known.scope, known.unit) != (request.scope, request.unit):
        kind = request.whose.partition(" ")[0]
        raise RequestError(
            f"{request.whose} is accounted per {known.unit} (scope: {known.scope}); for "
            f"another privacy unit ({request.unit}, scope: {request.scope}) name another {kind}"
        )
    wanted, had = request.budget, known.budget
    if wanted.epsilon > had.epsilon or wanted.delta > had.delta:
        raise RequestError(
            f"budget: {request.whose} has one of epsilon {had.epsilon:g}, delta {had.delta:g} in "
            f"{where}, and not of {wanted.epsilon:g}, {wanted.delta:g}: ask for no more; "
            "`hushbeam ledger init --amend` gives it another one"
        )


def require_continuing(request: Spend, entries: Entries) -> None:
    """Refuse a plan that would make its collection's account say something else than before.

    Args:
        request: to spend.
        entries: of its collection.

    Raises:
        RequestError: the plan changed without its version, or the population; or the window
            overlaps another, and is paid for as if it did not.
    """
    name = f"collection {request.collection!r}"
    runs = [entry for entry, _ in entries.groups("population", "version", "fingerprint")]
    for entry in runs:
        if entry.people != request.people:
            raise RequestError(
                f"{name} is accounted in population {entry.people!r}, which has paid for "
                f"it: say population: {entry.people}, or name another collection"
            )
    for entry in runs:
        if entry.version == request.version and entry.fingerprint != request.fingerprint:
            raise RequestError(
                f"version {request.version} of {name} has run with another plan; "
                "a change of plan is a new version: raise its number"
            )
    if (request.noise, request.scope) == ("running", "user per window"):
        # Once for all windows is paid for what is in one of them.
        for entry in together(entries.where(design=request.design), request, request.scope):
            if entry.window != request.window:
                raise RequestError(
                    f"window {request.window} may have rows of {entry.window}, and running "
                    f"totals are paid for as if each {request.unit} were in one window: name some "
                    "that do not overlap"
                )
    latest = max((entry.version for entry in runs), default=request.version)
    if not request.version >= latest:
        raise RequestError(
            f"version {request.version} of {name} is older than version {latest}, which has run"
        )


def require_affordable(request: Spend, entries: Entries) -> None:
    """Refuse a release that the budget does not hold.

    Args:
        request: to spend.
        entries: of its collection.

    Raises:
        BudgetExceeded: with what would fit.
    """
    losses = request.records
    # Whoever goes on to a later pass has seen answers: such prices add up, and do not compose.
    chosen = PASS in request.window or entries.passes
    for counted in units(entries, request):
        if not fits(losses_of(counted, request), request.budget, chosen):
            spent = losses_of(counted)
            raise BudgetExceeded(_refusal(request, counted, spent, losses, chosen))


def _refusal(
    request: Spend, counted: Entries, spent: Losses, losses: Sequence[Loss],
    chosen: bool,
) -> str:  # fmt: skip
    """What the release would come to, and what would fit."""
    budget, window = request.budget, request.window
    within = "" if request.scope == "user" else f" in window {window}"
    line = (
        f"the budget of {request.whose} (epsilon {budget.epsilon:g}, delta "
        f"{budget.delta:g}, per {request.unit}{within}) does not hold this release: spent by "
        f"{number_of(len(counted), 'release')}: {_said(spent, budget)}; with it: "
        f"{_said(spent + Counter(losses), budget)}; {_would_fit(spent, losses, budget)}"
    )
    if chosen:
        line += "; which passes a batch tells is chosen after answers, so prices add up"
    others = len(counted) - len(counted.where(window=window))
    if within and others:
        line += f"; {others} of them in windows of other names that overlap it, or may do so"
    open_ones = len(counted.where(state="reserved"))
    if open_ones:
        line += f"; {open_ones} of them unsettled, see `hushbeam ledger show`"
    return f"{line}. Nothing was read"


def _said(losses: Losses, budget: Budget) -> str:
    """What losses come to, at the budget's delta if they keep to it."""
    if not losses:
        return "nothing"
    joint = total(losses, budget.delta)
    if not joint.epsilon < float("inf"):
        return f"a delta beyond {budget.delta:g}"
    return f"epsilon {upward(joint.epsilon, 4):g} at delta {upward(joint.delta, 4):g}"


def _would_fit(spent: Losses, losses: Sequence[Loss], budget: Budget) -> str:
    """The largest release of this kind that fits."""
    share = largest_share(spent, losses, budget)
    if not share > 0:
        return (
            "no release with these deltas is sure to fit by its promise alone; plan a smaller one, "
            "and `hushbeam check` tells"
        )
    if len(losses) == 1:
        return (
            f"epsilon {share * losses[0].epsilon:.6g} in place of {losses[0].epsilon:g} would fit"
        )
    return f"all {len(losses)} epsilons times {share:g} would fit"


def once(releases: Iterable[tuple[Priced, int]]) -> list[tuple[Priced, int]]:
    """Those of some releases that count: of windows under one noise the first.

    A window more shows no more of a value that is reported again, and a value more was paid for
    with the first window, up to as many as the plan declares. What it does show, that somebody's
    value changed, has no price: statements say so. So it is of running totals, whose noise goes on
    from window to window, from one secret. Of several passes over a batch
    (`mechanisms.counters.passes`) those before the last one show what it shows, and noise besides:
    the one with the largest share is the price of all of them.

    Args:
        releases: and how many are like each.
    """
    counted, known = list[tuple[Priced, int]](), set[object]()
    for release, times in _dearest([*releases]):
        # Another version, design or choice of metrics draws noise anew, and where the design is not
        # known nobody can tell.
        name: object = release.fingerprint, release.design, release.metrics, release.records
        if release.noise == "running":  # its design is that of the secret which both are drawn from
            name = release.design
        if release.noise == "fresh" or release.design is None:
            counted.append((release, times))
        elif name not in known:
            counted.append((release, 1))
        known.add(name)
    return counted


def _dearest(releases: list[tuple[Priced, int]]) -> list[tuple[Priced, int]]:
    """Releases without those passes over a batch whose price is in that of another one."""
    passes = {_pass(release)[0] for release, _ in releases if PASS in release.window}
    if not passes:
        return releases
    most: dict[object, float] = {}
    for batch, share in (_pass(release) for release, _ in releases):
        most[batch] = max(share, most.get(batch, 0.0))
    ranked = (((release, times), *_pass(release)) for release, times in releases)
    return [one for one, batch, share in ranked if batch not in passes or share == most[batch]]


def _pass(release: Priced) -> tuple[object, float]:
    """(the batch that a release is a pass over, the share of its epsilon)."""
    window, _, share = release.window.partition(PASS)
    batch = (release.fingerprint, release.design, window, release.files)
    return batch, float(share) if share else 1.0
