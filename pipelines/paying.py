"""What a command of its own pays to the ledger of a population, beside the plans that share it."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.errors import RequestError, reason
from pipelines.ledger.entries import Budget
from pipelines.paths import beside

if TYPE_CHECKING:
    from pipelines.ledger.entries import Entry
    from pipelines.ledger.reservation import Reservation
    from pipelines.ledger.rules import Spend

PREFIX = "pay_"  # of what is typed for the ledger, and not for the release
_DELTA = 1e-6  # of a budget, as in plans


class Payment(NamedTuple):
    """Where a release is paid for.

    Attributes:
        ledger: a local file, or gs://bucket/object.
        population: whom the release is about.
        budget: of that population, if it has none in the ledger.
    """

    ledger: str
    population: str
    budget: Budget | None


class Price(NamedTuple):
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
    group = parser.add_argument_group("what it costs")
    group.add_argument(
        "--ledger", dest=f"{PREFIX}ledger", metavar="PATH",
        help="pay to this ledger, a file or gs://BUCKET/ledger.json, or stop if too little is left",
    )  # fmt: skip
    group.add_argument(
        "--population", dest=f"{PREFIX}population", metavar="NAME",
        help="whose budget it is; whatever else is published about them composes: the population "
        "of a plan, by default its collection",
    )  # fmt: skip
    group.add_argument(
        "--budget", dest=f"{PREFIX}budget", metavar="EPSILON[,DELTA]",
        help=f"of a population that is new to the ledger (default of DELTA: {_DELTA:g})",
    )  # fmt: skip


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
    budget = None if "budget" not in words else _budget(words["budget"])
    return Payment(words["ledger"], words["population"], budget)


def _budget(text: str) -> Budget:
    epsilon, _, delta = text.partition(",")
    try:
        return Budget(epsilon=float(epsilon), delta=float(delta) if delta else _DELTA)
    except ValueError:
        raise RequestError(
            f"--budget: {text!r} is no EPSILON[,DELTA]: a positive number, and one of 0 to 1"
        ) from None


@dataclass
class Paid:
    """The right to make one release, paid for or free.

    Attributes:
        release_id: what its statement must carry.
        reservation: in the ledger, if there is one.
    """

    release_id: str
    reservation: Reservation | None = None

    def settle(self, published: bool, folder: str) -> None:
        """Record what became of it.

        Args:
            published: whether it stands; else the run was handed over to a service.
            folder: where.
        """
        if self.reservation is None:
            return
        if published:
            self.reservation.commit(folder, self.release_id)
        else:
            self.reservation.hand_over()


@contextmanager
def paid(payment: Payment | None, price: Callable[[], Price]) -> Iterator[Paid]:
    """The price is set aside before a row is read.

    Args:
        payment: where; None for nowhere.
        price: what the release costs.

    Raises:
        BudgetExceeded: it does not fit.
        RequestError: the release has no price, or the population no budget, or another one.
    """
    if payment is None:
        yield Paid(uuid.uuid4().hex)
        return
    from pipelines.ledger.ledger import Ledger

    ledger = Ledger.open(payment.ledger)
    earlier = [entry for entry in ledger.entries() if entry.people == payment.population]
    with ledger.spend(_spend(payment, price(), earlier)) as reservation:
        yield Paid(reservation.release_id, reservation)


def _spend(payment: Payment, price: Price, earlier: Sequence[Entry]) -> Spend:
    """What a release costs a population.

    Args:
        payment: whose.
        price: of the release.
        earlier: entries of that population.
    """
    from pipelines.ledger.rules import Spend

    # Each run draws its noise anew, so none is the same release as another: its collection is its
    # own, and its window is taken to overlap all others.
    own = uuid.uuid4().hex
    budget = _agreed(payment, [entry.budget for entry in earlier])
    try:
        return Spend(
            f"{price.command}-{own[:8]}", 1, own, "alone", earlier[-1].scope if earlier else "user",
            budget, (price.loss,), beside("", price.output), (price.command,),
            () if price.profile is None else (price.profile,), files=price.files,
            population=payment.population,
        )  # fmt: skip
    except ValueError as error:
        raise RequestError(f"--ledger: {reason(error)}") from None


def _agreed(payment: Payment, budgets: Sequence[Budget]) -> Budget:
    """The population's budget."""
    if not budgets:
        if payment.budget is None:
            raise RequestError(
                f"--budget is missing: {payment.ledger} holds nothing of population "
                f"{payment.population!r}"
            )
        return payment.budget
    if payment.budget not in (None, budgets[-1]):
        raise RequestError(
            f"--budget: population {payment.population!r} has one of epsilon "
            f"{budgets[-1].epsilon:g}, delta {budgets[-1].delta:g}: leave this one out"
        )
    return budgets[-1]
