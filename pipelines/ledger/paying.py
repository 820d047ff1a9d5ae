"""What a command of its own pays to the ledger of a population, beside the plans that share it."""

from __future__ import annotations

import argparse
import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.errors import RequestError, reason
from pipelines.request.options import essential
from pipelines.storage.paths import beside, siblings

if TYPE_CHECKING:
    from pipelines.ledger.reservation import Reservation
    from pipelines.ledger.rules import Spend
    from pipelines.ledger.snapshot import Snapshot

PREFIX = "pay_"  # of what is typed for the ledger, and not for the release


class Payment(NamedTuple):
    """Where a release is paid for.

    Attributes:
        ledger: a local file, or gs://bucket/object.
        population: whom the release is about.
    """

    ledger: str
    population: str


class ReleasePrice(NamedTuple):
    """A release of its own, as a ledger counts it.

    Attributes:
        command: that makes it.
        loss: what it promises.
        profile: the whole curve behind that, if it is known.
        output: its folder.
        files: digests of what it reads, if that is known.
    """

    command: str
    loss: Guarantee
    profile: PrivacyLoss | None
    output: str
    files: tuple[str, ...] | None


def add_options(parser: Any) -> None:
    """Add the words that say where a release is paid for."""
    group = parser.add_argument_group("budget")
    ledger = group.add_argument(
        "--ledger", dest=f"{PREFIX}ledger", metavar="PATH",
        help="pay to this ledger, or stop if too little is left; a file or gs://BUCKET/ledger.json",
    )  # fmt: skip
    population = group.add_argument(
        "--population", dest=f"{PREFIX}population", metavar="NAME",
        help="whose budget it is, as `hushbeam ledger init` was told; whatever else is published "
        "about them composes: the population of a plan, by default its collection",
    )  # fmt: skip
    essential(ledger)
    essential(population)


def payment(arguments: argparse.Namespace) -> Payment | None:
    """Where a release is to be paid for; None if nobody says so.

    Raises:
        RequestError: what was typed does not go together.
    """
    words = {
        name.removeprefix(PREFIX): value
        for name, value in vars(arguments).items()
        if name.startswith(PREFIX) and value is not None
    }
    if not words:
        return None
    for needed in ("ledger", "population"):
        if needed not in words:
            raise RequestError(
                f"--{needed} is missing: a release is paid for out of the budget of a --population "
                "in a --ledger"
            )
    return Payment(words["ledger"], words["population"])


@dataclass
class Right:
    """The right to make one release, with a ledger behind it or without.

    Attributes:
        output: where.
        reservation: in the ledger, if there is one.
        ledger: where that is.
    """

    output: str
    reservation: Reservation | None = None
    ledger: str | None = None

    @cached_property
    def stamp(self) -> dict[str, Any]:
        """What the release's statement must say: which one it is, and who has paid for it."""
        if self.reservation is None:
            # Without a ledger nobody can compare identities, so any that is unique will do.
            return {"release_id": uuid.uuid4().hex}
        return self.reservation.stamp

    @property
    def published(self) -> bool:
        """Whether another run was faster."""
        return self.reservation is not None and self.reservation.published

    def keep(self) -> None:
        """Come of it what may, its price is paid."""
        if self.reservation is not None:
            self.reservation.keep()

    def conclude(self, published: bool) -> None:
        """It is out, or else the run goes on elsewhere."""
        if self.reservation is None:
            return
        if published:
            self.reservation.commit()
        else:
            self.reservation.hand_over()


@contextmanager
def paid(payment: Payment | None, price: Callable[[], ReleasePrice]) -> Iterator[Right]:
    """The price is set aside before a row is read.

    Args:
        payment: where; None for nowhere.
        price: what the release costs.

    Raises:
        BudgetExceeded: it does not fit.
        RequestError: the release has no price, or the ledger does not know the population.
    """
    if payment is None:
        yield Right("")
        return
    from pipelines.ledger.ledger import CollectionLedger

    cost = price()
    # Workers look it up, too, and have folders of their own.
    payment = payment._replace(ledger=beside("", payment.ledger))
    ledger = CollectionLedger.open(payment.ledger, [siblings(beside("", cost.output))])
    with ledger.spend(_spend(payment, cost, ledger.read())) as reservation:
        yield Right(reservation.entry.output, reservation, payment.ledger)


def _spend(payment: Payment, price: ReleasePrice, ledger: Snapshot) -> Spend:
    """What a release costs a population."""
    from pipelines.ledger.rules import Spend, population_of

    known = population_of(payment.population, ledger.populations, payment.ledger)
    output = beside("", price.output)
    # What was begun for a folder and came to nothing is begun again there. Once it is out, and was
    # moved away, another release there is another one: its noise is new.
    out = len(ledger.entries.where(state="committed", output=output))
    own = hashlib.sha256(f"{price.command} {output} {out}".encode()).hexdigest()[:32]
    try:
        # Its window is taken to overlap all others.
        return Spend(
            f"{price.command}-{own[:8]}", 1, own, "alone", known.scope, known.budget,
            (price.loss,), output, (price.command,),
            () if price.profile is None else (price.profile,), files=price.files,
            population=payment.population,
        )  # fmt: skip
    except ValueError as error:
        raise RequestError(f"--ledger: {reason(error)}") from None
