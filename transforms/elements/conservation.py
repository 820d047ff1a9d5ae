"""What one step hands to the next, counted at both ends: an engine may lose blocks without a word.

Beam 2.77 did in threads, whole blocks of a million messages, and ended as if nothing had been. So
nobody's count is trusted: what was bounded, what was perturbed and what was sent are added up where
they pass, and a collector compares them with what it has counted before anything is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from transforms.elements.numbers import is_numbered
from transforms.elements.progress import LOST, ROWS, tally
from transforms.encoders.block import Rows

BOUNDED, CHOSEN = "rows among which one a user was chosen", "rows that were chosen"
PERTURBED = "rows that were perturbed"
SENT = "messages of each batch"
PASSED = "messages between two parties"
DRAWN = "ranges of counters with dummies"
ADDED = "messages and the dummies among them, and of how many units and ranges they are"

# Of numbers or arrays: where it says what comes out, Beam need not read its code at every use.
ADDING_UP = beam.CombineFn.from_callable(sum).with_output_types(Any)

Flow = Mapping[str, Any]
"""Name -> how many: arrays of SENT, a number for each batch, and of ADDED, as of `added`.

PASSED stands in the place of SENT where the shuffler is another party's.
"""


class Batches(NamedTuple):
    """Codes that share a shuffler, in as many equal ranges as there are batches."""

    codes: int
    number: int = 1

    def of(self, messages: NDArray[Any]) -> NDArray[np.int64]:
        """Each message's batch; what no client sends is in the last one."""
        if self.number == 1:
            return np.zeros(messages.size, np.int64)
        width = np.uint64(self.codes // self.number)
        # Codes from `codes` on fall behind the last range; whoever sends them must not get a batch
        # that exists for them alone.
        return np.minimum(messages // width, np.uint64(self.number - 1)).astype(np.int64)

    def sizes(self, messages: NDArray[Any]) -> NDArray[np.int64]:
        """(number,) how many messages of a block a client could have sent."""
        if is_numbered(messages):  # of counters, which are one batch
            return np.array([messages["times"][messages["code"] < self.codes].sum()])
        possible = messages < self.codes
        if self.number == 1:
            return np.array([np.count_nonzero(possible)])
        return np.bincount(self.of(messages[possible]), minlength=self.number)


class LostError(Exception):
    """An engine has lost some of what was handed to it."""


def fail_lost() -> NoReturn:
    """Fail for that, and count it: what a step raises reaches nobody in its own words."""
    tally(LOST, 1)
    raise LostError


class Shuffled(NamedTuple):
    """What a shuffler lets through.

    Attributes:
        least: the users of a batch that is not withheld; 0 where nothing is shuffled.
        batches: the ranges of codes that are batches of their own.
        ranges: of counters, for which a shuffler has drawn dummies.
    """

    least: int
    batches: Batches
    ranges: int = 0

    def passed(self, flow: Flow) -> int:
        """How many of the messages that were sent must have come."""
        if PASSED in flow:
            return int(flow[PASSED])
        sent = np.asarray(flow.get(SENT, [0]))
        if self.batches.number > 1:  # a message a user
            return int(sent[sent >= self.least].sum())
        users = flow.get(PERTURBED, sent.sum())
        return int(sent.sum()) if not self.least or users >= self.least else 0


def entering(blocks: beam.PCollection) -> beam.PCollection:
    """(name, count) of rows on their way to the mechanism."""
    return blocks | "Rows perturbed" >> beam.Map(_counted, PERTURBED, attrgetter("size"))


def leaving(messages: beam.PCollection, batches: Batches) -> beam.PCollection:
    """(name, counts) of messages on their way to the shuffler, by batch.

    Sizes alone are read, beside the shuffler's own reading and in the same bundle. An engine that
    computed the draw a second time for it would count other dummies, and the run would fail: no
    engine that is supported does, and failing is the safe side.
    """
    return messages | "Messages sent" >> beam.Map(_counted, SENT, batches.sizes)


def reporting(blocks: beam.PCollection, label: str) -> beam.PCollection:
    """(name, counts) of rows whose one message is counted in the end."""
    return blocks | label >> beam.Map(_counted, SENT, _one_batch)


def passing(messages: beam.PCollection) -> beam.PCollection:
    """(name, count) of messages, or reports, that come from another party or go to it."""
    return messages | "Messages passed" >> beam.Map(_counted, PASSED, len)


def added(messages: int, origins: int) -> tuple[str, NDArray[np.int64]]:
    """(name, counts) of messages that one step made, and of the units or ranges they are of.

    Both numbers are one element: an engine that loses what is said of a block together with the
    block loses its units, too, and of these another path says how many there are.
    """
    return ADDED, np.array([messages, origins])


def reported(users: beam.PCollection) -> beam.PCollection:
    """(name, count) of users, of whom a step has said how many they are."""
    return users | "Users" >> beam.Map(_counted, PERTURBED, int)


def summed(*parts: beam.PCollection) -> beam.PCollection:
    """(name, count) pairs of a `Flow`, one for each name."""
    flow = parts[0] if len(parts) == 1 else parts | "Flow" >> beam.Flatten()
    return flow | "Add up flow" >> beam.CombinePerKey(ADDING_UP)


def spelt(counted: tuple[str, Any]) -> Iterator[tuple[str, int]]:
    """A count of a flow as counts of single numbers, to be kept and added up."""
    name, amounts = counted
    if name == ADDED:
        return  # of dummies no stream knows before its windows end
    if name != SENT:
        yield name, int(amounts)
        return
    for batch, amount in enumerate(amounts.tolist()):
        yield f"{SENT} {batch}", amount


def read_flow(amounts: Mapping[str, int]) -> dict[str, Any]:
    """The flow that was spelt out; other names are passed over.

    >>> read_flow(dict([*spelt((SENT, np.array([5, 0, 7]))), *spelt((CHOSEN, 3))]))
    {'rows that were chosen': 3, 'messages of each batch': array([5, 0, 7])}
    """
    flow: dict[str, Any] = {
        name: amounts[name] for name in (BOUNDED, CHOSEN, PERTURBED) if name in amounts
    }
    batches = sum(name.startswith(f"{SENT} ") for name in amounts)
    return flow | {SENT: np.array([amounts[f"{SENT} {batch}"] for batch in range(batches)])}


def _counted(element: Any, name: str, size: Callable[[Any], Any]) -> tuple[str, Any]:
    """How large an element is, under a name of the flow."""
    return name, size(element)


def _one_batch(block: Rows) -> NDArray[np.int64]:
    return np.array([block.size])


def reporting_users(tallies: Mapping[str, int], flow: Flow) -> int:
    """How many users reported, whatever was withheld afterwards.

    Args:
        tallies: rows read, and rejects by reason.
        flow: what passed between the steps; empty where reports came by other ways.
    """
    usable = _usable(tallies)
    return int(flow.get(PERTURBED, np.sum(flow.get(SENT, usable))))


def _usable(tallies: Mapping[str, int]) -> int:
    """Rows that were not rejected."""
    return tallies.get(ROWS, 0) - sum(n for name, n in tallies.items() if name != ROWS)


def require_whole(tallies: Mapping[str, int], flow: Flow, shuffled: Shuffled, arrived: int) -> None:
    """Refuse a batch of which something was lost on its way.

    Args:
        tallies: rows read, and rejects by reason.
        flow: what passed between the steps.
        shuffled: what a shuffler may have withheld.
        arrived: messages that were counted, impossible ones among them.

    Raises:
        LostError: the numbers at the two ends of a step differ.
    """
    usable = _usable(tallies)
    # A shuffler withholds a batch of which nobody says how large it is; not that, but the saying of
    # it was lost.
    if usable and not {SENT, PASSED} & flow.keys():
        fail_lost()
    # What is not known to have come is not held against what went: a stream keeps messages alone.
    perturbed = flow.get(PERTURBED, 0 if BOUNDED in flow else flow.get(CHOSEN, usable))
    sent = int(np.sum(flow.get(SENT, 0)))
    origins = flow.get(PERTURBED, 0) + flow.get(DRAWN, 0)
    made, of = flow.get(ADDED, (sent, origins))
    handed = (
        (made, sent),
        (of, origins),
        (usable, flow.get(BOUNDED, perturbed)),
        (flow.get(CHOSEN, perturbed), perturbed),
        (shuffled.passed(flow), arrived),
        (shuffled.ranges, flow.get(DRAWN, 0)),
    )
    if any(went != came for went, came in handed):
        fail_lost()
