"""Reports as they travel: the plan, the metric, a message, and nothing of the sender.

A report to noisy counters has several sealed words, one for each of its slots.

The report id is one for all reports of a user, a window and a metric (`identity`), and means
nothing to who lacks the sender's secret: by it the shuffler counts each user once, whatever a
second report says, and it removes the ids before it shuffles.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.randomness import RandomSource
from mechanisms.wire import fingerprint as plans

# Of the format. 2: ids are of users; of version 1 they were random, and a user who reported twice
# counted twice, so what was made then is not read. 3: see `transforms.reports.report_tables`.
VERSION = 2
SEALED = 56  # bytes: an encapsulated key of 32, a message of 8, a tag of 16
MOST_METRICS = 1 << 16
MOST_SLOTS = ((1 << 16) - 1 - 26) // SEALED  # a record says its length in two bytes

Records = NDArray[np.void]


@dataclass(frozen=True)
class Form:
    """Which record a file holds.

    Attributes:
        sealed: the message is sealed to the collector's key.
        shuffled: the report id is gone.
        slots: of a report to noisy counters, how many sealed words it has, typed by their places;
            each goes on alone once it is shuffled, and says its level. 0 for any other report.
        crowd: it is a string with the noisy number of units that hold it, in the place of reports:
            sealed, in the room of so many slots.
        twice: key id and seal are sealed once more, to a second shuffler's key: the 8 + 56 bytes
            take the room of two seals.

    >>> [Form.of(kind).dtype.itemsize for kind in range(4)]
    [28, 84, 12, 68]
    >>> Form(sealed=True, slots=3).dtype.itemsize, Form(True, True, slots=1).dtype.itemsize
    (196, 70)
    >>> Form(True, True, slots=3, crowd=True).dtype.itemsize
    188
    """

    sealed: bool = False
    shuffled: bool = False
    slots: int = 0
    crowd: bool = False
    twice: bool = False

    @classmethod
    def of(cls, kind: int) -> "Form":
        """The form with a number."""
        return cls(bool(kind & 1), bool(kind & 2), kind >> 2 & 1, bool(kind & 8), bool(kind & 16))

    @property
    def kind(self) -> int:
        """The number of the form, whatever its width: 0 .. 31."""
        kind = self.sealed + 2 * self.shuffled + 4 * bool(self.slots) + 8 * self.crowd
        return kind + 16 * self.twice

    @property
    def wide(self) -> bool:
        """Whether it has as many seals as slots."""
        return bool(self.slots) and (self.crowd or not self.shuffled)

    @property
    def seals(self) -> int:
        """How many of `SEALED` bytes a record has room for, if it is sealed."""
        return self.slots if self.wide else 1 + self.twice

    def fitted(self, width: int) -> "Form | None":
        """This form with as many slots as a number of sealed bytes makes; None if it has none."""
        if not self.wide:
            return self if width == SEALED else None
        slots, rest = divmod(width, SEALED)
        return replace(self, slots=slots) if 1 <= slots <= MOST_SLOTS and not rest else None

    @property
    def dtype(self) -> np.dtype[np.void]:
        """A record, byte for byte as a binary file has it; `length` counts what follows it."""
        return _dtype(self)

    def empty(self, size: int) -> Records:
        """(size,) records with their length filled in, and zeros."""
        records = np.zeros(size, self.dtype)
        records["length"] = self.dtype.itemsize - 2
        return records


@lru_cache(maxsize=2048)  # to make one is a third of what it takes to read a report alone
def _dtype(form: Form) -> np.dtype[np.void]:
    fields: list[Any] = [("length", "<u2"), ("metric", "<u2")]
    fields += [] if form.shuffled else [("report_id", "<u8", (2,))]
    fields += [("level", "<u2")] if form.slots and not form.wide else []
    fields += [("value", "<u8")] if form.crowd else []
    shape = (form.slots, SEALED) if form.wide else (SEALED * form.seals,)
    sealed = [("key_id", "<u8"), ("sealed", "u1", shape)]
    return np.dtype(fields + (sealed if form.sealed else [("message", "<u8")]))


WORDS = Form(sealed=True, shuffled=True, slots=1)  # of noisy counters, as they are handed on


@dataclass(frozen=True, eq=False)
class Reports:
    """A block of reports of one plan and one form.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: what the records hold.
        records: (n,) of `form.dtype`.

    >>> reports = Reports.shuffled(bytes(16), metric=2, messages=[7, 9])
    >>> len(reports), reports.records["message"].tolist()
    (2, [7, 9])
    """

    fingerprint: bytes
    form: Form
    records: Records

    def __post_init__(self) -> None:
        if not len(self.fingerprint) == plans.SIZE:
            raise ValueError(f"a fingerprint has {plans.SIZE} bytes, not {len(self.fingerprint)}")
        if not self.records.dtype == self.form.dtype:
            raise ValueError("the records are not of the form that is claimed for them")

    def __len__(self) -> int:
        return self.records.size

    @classmethod
    def submitted(
        cls, fingerprint: bytes, metric: int, messages: ArrayLike, rng: RandomSource
    ) -> "Reports":
        """What is sent of rows that are nobody's: each message with an id of its own.

        Args:
            fingerprint: of the plan, 16 bytes.
            metric: its place in the plan, 0 .. 65,535.
            messages: (n,) uint64, from `Mechanism.perturb`.
            rng: draws the ids; not one that repeats, or the shuffler would see duplicates.
        """
        # 128 random bits each: no two are ever alike.
        ids = rng.words(2 * np.size(messages)).reshape(-1, 2)
        return cls.identified(fingerprint, metric, messages, ids)

    @classmethod
    def identified(
        cls, fingerprint: bytes, metric: int, messages: ArrayLike, ids: ArrayLike
    ) -> "Reports":
        """What users send: each message with its user's id.

        Args:
            fingerprint: of the plan, 16 bytes.
            metric: its place in the plan, 0 .. 65,535.
            messages: (n,) uint64, from `Mechanism.perturb`.
            ids: (n, 2) uint64, from `identity.ReportIds`.
        """
        reports = cls._plain(Form(), fingerprint, metric, messages)
        reports.records["report_id"] = ids
        return reports

    @classmethod
    def shuffled(cls, fingerprint: bytes, metric: int, messages: ArrayLike) -> "Reports":
        """What the shuffler sends on, of one metric; arguments as `submitted`."""
        return cls._plain(Form(shuffled=True), fingerprint, metric, messages)

    @classmethod
    def _plain(cls, form: Form, fingerprint: bytes, metric: int, messages: ArrayLike) -> "Reports":
        """Messages that nothing seals."""
        if not 0 <= metric < MOST_METRICS:
            raise ValueError(f"metric must lie in 0 .. {MOST_METRICS - 1}, not {metric}")
        words = np.asarray(messages, np.uint64)
        records = form.empty(words.size)
        records["metric"], records["message"] = metric, words
        return cls(fingerprint, form, records)

    def where(self, kept: NDArray[np.bool_]) -> "Reports":
        """Those of the reports that a (n,) mask keeps."""
        return self if kept.all() else replace(self, records=self.records[kept])

    def of_metric(self, metric: int) -> "Reports":
        """Those that answer one metric."""
        return self.where(self.records["metric"] == metric)

    def recast(self, form: Form) -> "Reports":
        """The same reports in another form; fields that this one lacks are zeros."""
        records = form.empty(len(self))
        for name in set(form.dtype.names or ()) & set(self.form.dtype.names or ()) - {"length"}:
            if records.dtype[name] == self.form.dtype[name]:  # not a seal within another one
                records[name] = self.records[name]
        return Reports(self.fingerprint, form, records)

    def apart(self, types: ArrayLike) -> "Reports":
        """Each sealed word of reports to noisy counters by itself, as the shuffler sends it on.

        Args:
            types: (F,) the level of each slot.
        """
        levels = np.asarray(types)
        form = replace(self.form, shuffled=True, slots=1)
        words = form.empty(len(self) * levels.size)
        for name in ("metric", "key_id"):
            words[name] = np.repeat(self.records[name], levels.size)
        words["level"] = np.tile(levels, len(self))
        words["sealed"] = self.records["sealed"].reshape(-1, SEALED)
        return Reports(self.fingerprint, form, words)

    def without_ids(self) -> "Reports":
        """The same reports, in the same order, as the shuffler sends them on."""
        return self.recast(replace(self.form, shuffled=True))
