"""What a ledger holds: an entry for each release that was begun, and what became of it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mechanisms.channel import AnyNeighbours, Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.errors import RequestError
from pipelines.ledger.spans import Span

# reserved: begun, and nobody knows better; committed: published; returned: ended with nothing
# published; spent, not run: how an operator settled a reservation whose run was lost. One that is
# irrevocable and has ended with nothing published is spent, too.
State = Literal["reserved", "committed", "returned", "spent", "not run"]
Scope = Literal["user", "user per window"]
Noise = Literal["fresh", "permanent", "running"]
COUNTED: frozenset[State] = frozenset({"reserved", "committed", "spent"})

_POINTS = 64  # of a stored profile


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Budget(_Record):
    """The most that all releases about one unit may reveal together.

    Attributes:
        epsilon: positive, in nats.
        delta: in [0, 1).

    >>> Budget(epsilon=1.0, delta=1e-6).epsilon
    1.0
    """

    epsilon: float = Field(gt=0)
    delta: float = Field(ge=0, lt=1)


class Loss(_Record):
    """What one metric of a release reveals.

    Attributes:
        model: against whom the claim holds.
        epsilon: in nats.
        delta: in [0, 1).
        unit: whose contribution may change between neighbouring inputs.
        how: the derivation of the claim.
        profile: further (epsilon, delta) points of the same release, ascending, where they are
            known (a Gaussian's, a shuffled batch's): composition is tighter for them. Upper bounds.
        neighbours: which two inputs look alike.
        condition: of which units it holds, where not of all.
        apart: as `profile`, of a unit whose contribution becomes another where `neighbours` are
            others.

    >>> day = Guarantee("shuffle", epsilon=0.1, delta=1e-8, unit="user", how="enumeration")
    >>> Loss.of(day).guarantee == day
    True
    """

    model: Literal["local", "shuffle", "central"]
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)
    unit: str
    how: str
    profile: tuple[tuple[float, float], ...] = Field((), max_length=_POINTS)
    neighbours: AnyNeighbours = "replace"
    condition: str = ""
    apart: tuple[tuple[float, float], ...] = Field(default=(), max_length=_POINTS)

    @field_validator("profile", "apart")
    @classmethod
    def _ascends(cls, points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        epsilons = [epsilon for epsilon, _ in points]
        if not all(epsilon >= 0 and 0 <= delta <= 1 for epsilon, delta in points):
            raise ValueError("the points of a profile are (epsilon >= 0, delta in [0, 1])")
        if not all(a < b for a, b in pairwise(epsilons)):
            raise ValueError("the epsilons of a profile must ascend")
        return points

    @classmethod
    def of(cls, guarantee: Guarantee, profile: PrivacyLoss | None = None) -> Loss:
        """The record of a release's claim.

        Args:
            guarantee: what was promised.
            profile: the whole curve behind the promise, where it is known.

        Raises:
            ValueError: the release protects nobody, so no budget covers it.
        """
        if guarantee.model == "none" or not guarantee.epsilon < math.inf:
            raise ValueError(f"a release without a guarantee has no price: {guarantee.how}")
        apart = () if profile is None else _points(profile.apart)
        return cls(
            model=guarantee.model, epsilon=guarantee.epsilon, delta=guarantee.delta,
            unit=guarantee.unit, how=guarantee.how, profile=_points(profile),
            neighbours=guarantee.neighbours, condition=guarantee.condition, apart=apart,
        )  # fmt: skip

    @property
    def guarantee(self) -> Guarantee:
        """The claim as the mechanisms state it."""
        return Guarantee(
            self.model, self.epsilon, self.delta, self.unit, self.how, self.neighbours,
            self.condition,
        )  # fmt: skip

    @property
    def replaced(self) -> Loss:
        """The same for a unit whose contribution becomes another."""
        if self.neighbours == "replace":
            return self
        points = self.apart
        if not points:
            known = [*self.profile] or [(self.epsilon, self.delta)]
            points = _points(PrivacyLoss.from_profile(*zip(*known, strict=True)).replaced)
        profile = PrivacyLoss.from_profile(*zip(*points, strict=True))
        epsilon, delta = profile.epsilon(self.delta), self.delta
        if not epsilon < math.inf:
            epsilon, delta = profile.epsilons[-1], profile.deltas[-1]
        if not delta < 1:
            raise RequestError(
                f"--ledger: a release at epsilon {self.epsilon:g}, delta {self.delta:g}, about "
                f"{self.neighbours} neighbours, promises nothing beside one about others: give it "
                "a population of its own"
            )
        return Loss(
            model=self.model, epsilon=epsilon, delta=delta, unit=self.unit, how=self.how,
            condition=self.condition, profile=points,
        )  # fmt: skip


def _points(profile: PrivacyLoss | None) -> tuple[tuple[float, float], ...]:
    """A profile as a ledger keeps it: any points are upper bounds, so a long one may be thinned."""
    if profile is None:
        return ()
    points = tuple(zip(profile.epsilons, profile.deltas, strict=True))
    step = -(-len(points) // (_POINTS - 1)) or 1
    return points[::step] if len(points) % step == 1 or step == 1 else points[::step] + points[-1:]


class Before(_Record):
    """A ledger that another one took the place of, when it was adopted.

    Attributes:
        id: its.
        changes: the most that anybody knew of; what it pays for after them is not in the new one.
    """

    id: str = Field(pattern="^[0-9a-f]{16}$")
    changes: int = Field(ge=0)


class Beginning(_Record):
    """What a ledger was begun with; it never changes.

    Attributes:
        id: 16 hexadecimal digits.
        begun_at: when, ISO 8601 in UTC.
        witness: where the witness stands: a local file, or gs://bucket/object.
        key: `key.fingerprint` of the key of its heads.
        before: the ledgers that it took the place of, when it was adopted.
    """

    table: ClassVar[str] = "beginning"

    id: str = Field(pattern="^[0-9a-f]{16}$")
    begun_at: str
    witness: str
    key: str
    before: tuple[Before, ...] = ()


class Population(_Record):
    """Whom releases are about, and what they may lose.

    Attributes:
        name: by which plans and commands call it.
        unit: whose contribution may change between neighbouring inputs.
        scope: as of its entries.
        budget: for all releases about one unit together.
    """

    table: ClassVar[str] = "populations"

    name: str = Field(min_length=1)
    unit: Literal["row", "user"]
    scope: Scope
    budget: Budget

    @property
    def id(self) -> str:
        """Under which it stands in its table."""
        return self.name


class Owner(_Record):
    """The process that made a reservation; digests and numbers, no names.

    Attributes:
        host: a digest that tells machines (and containers) apart.
        process: its number there.
        started: when, as that machine counts: numbers of processes are used again.
    """

    host: str
    process: int
    started: str


class Entry(_Record):
    """One release: what it costs, who makes it, and how far that has come.

    Attributes:
        id: 16 hexadecimal digits.
        collection: what is collected, or a name of its own for what a command made alone.
        version: of the plan.
        fingerprint: of the plan.
        window: the part of the time that the release is about, in the plan's words.
        scope: "user": the same users come in every window, so windows compose; "user per window":
            a unit is a user's contribution to one window, so they do not.
        metrics: their names.
        losses: what each reveals.
        budget: that the release was held against.
        output: the release's folder.
        release_id: in the statement of the release, once there is one.
        state: see `State`.
        handed_over: whether the run goes on without the process that began it.
        owner: who began it.
        reserved_at: when, ISO 8601 in UTC.
        changed_at: when the state last changed.
        operations: a random word for every change of this entry, by which a writer that was cut
            off learns whether its change arrived.
        span: the time of its window, if that is known.
        design: the fingerprint of the plan and of the mechanisms it had come to, if that is known;
            of running totals, of the secrets that they are drawn from.
        files: of `spans.digests`: what the release was made of, if that is known.
        irrevocable: whether who makes the release keeps what it is made of, come of it what may:
            then no failure gives the price back, and the same release may be tried again for it.
        noise: permanent or running if its losses are those of all windows of its plan together.
        population: who it is about, to whom budgets belong; by default the collection's name.
        attempt: how often it was begun. Whoever tries again overtakes the attempt before, which
            may still live on: neither ledger nor folder takes anything from it any more.
        in_doubt: whether an attempt was overtaken that may still live, for it was only silent.
        archived: whether an operator has said that its release was moved or has expired.
    """

    table: ClassVar[str] = "entries"

    id: str = Field(pattern="^[0-9a-f]{16}$")
    collection: str
    version: int
    fingerprint: str
    window: str
    scope: Scope
    metrics: tuple[str, ...]
    losses: tuple[Loss, ...] = Field(min_length=1)
    budget: Budget
    output: str
    release_id: str
    state: State
    handed_over: bool = False
    owner: Owner
    reserved_at: str
    changed_at: str
    operations: tuple[str, ...] = Field(min_length=1)
    span: Span | None = None
    design: str | None = None
    files: tuple[Annotated[str, Field(pattern="^[0-9a-f]{12}$")], ...] | None = None
    irrevocable: bool = False
    noise: Noise = "fresh"
    population: str | None = None
    attempt: int = Field(1, ge=1)
    in_doubt: bool = False
    archived: bool = False

    @property
    def people(self) -> str:
        """The population: whatever was published about it composes."""
        return self.population or self.collection

    @property
    def records(self) -> tuple[Loss, ...]:
        """What it reveals."""
        return self.losses

    @property
    def counted(self) -> bool:
        """Whether its loss is counted as spent: in doubt, yes."""
        return self.state in COUNTED

    @property
    def unit(self) -> str:
        """Whose contribution its losses are about."""
        return self.losses[0].unit

    @property
    def kept(self) -> str:
        """Why no failure gives the price back, of one that is irrevocable."""
        running = self.noise == "running"
        return "its window may be drawn" if running else "the collector has the reports"


Record = Entry | Population
