"""Asking a batch again: what its shuffler keeps meanwhile, hands over later, and destroys.

Kept are the layers that lie over the batch's own dummies (`mechanisms.counters.passes`): numbers
that were drawn before anything was looked at, and nothing of any report. A later pass hands over
those to be taken away, so nothing is drawn for it, and to hand it over again is the same bytes.
Whoever had them besides the batch would know what the last pass tells, which is what the plan's
whole epsilon pays for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from io import BytesIO
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from numpy.lib.format import read_array

from mechanisms.counters.design import Counters
from mechanisms.counters.passes import layer
from mechanisms.randomness import SecureRandom
from pipelines.errors import DONE, RequestError, because, reason
from pipelines.parties import summary
from pipelines.parties.memory import (
    KEPT,
    LAYERS,
    MEMORY,
    WHY,
    KeptBatch,
    ShufflerMemory,
    match,
    outlast,
    put,
    read_note,
    stands,
)
from pipelines.plan.metrics import mark
from pipelines.plan.split import Split
from pipelines.releases import release
from pipelines.request import answers
from pipelines.request.spans import seconds_of
from pipelines.storage.paths import beside, flush
from pipelines.views.console import Screen
from transforms.elements.blocks import repeated
from transforms.elements.conservation import DRAWN, added
from transforms.shuffle.dummies import WithDummies
from transforms.shuffle.slots import SealCodes

LAST = 1.0  # the share of the last pass
REST = "rest"  # as it is written
TAKEN = "layers.parquet"  # of a later pass: what is to be taken away from each counter


def shares_of(words: Sequence[str], parted: Split) -> tuple[float, ...]:
    """The shares of epsilon that are asked for, ascending; none of a batch that has one pass.

    Args:
        words: as they were typed: numbers, or "rest" alone.
        parted: the window.

    Raises:
        RequestError: these are none, or the plan does not say that a batch may be asked again.
    """
    if not words:
        return ()
    if not (parted.job.plan.ask_again and counters_of(parted)) or parted.strings:
        raise RequestError(
            "--share: a batch is asked again where the plan says for how long (ask_again: 7d), and "
            "all metrics of it are noisy counters whose dummies the shuffler draws"
        )
    try:
        shares = (LAST,) if tuple(words) == (REST,) else tuple(map(float, words))
    except ValueError:
        shares = ()
    # Windows and folders of passes are named by them.
    numbers = [float(f"{share:g}") for share in shares]
    if not (numbers and 0 < numbers[0] and numbers[-1] <= LAST and numbers == sorted({*shares})):
        raise RequestError(
            "--share: say which shares of the window's epsilon passes tell together, ascending, as "
            f"in 0.25; or {REST}, for all of it"
        )
    return shares


def draw(
    memory: ShufflerMemory, shuffle: str, parted: Split, shares: Sequence[float], into: str
) -> None:
    """Draw the layers of a batch that has begun, and keep them; before any report is read.

    Args:
        memory, shuffle, parted: of the window.
        shares: of the passes before the last one, ascending.
        into: the folder of the first pass.

    Raises:
        RequestError: a share is out of reach.
    """
    rng = SecureRandom()
    try:
        rows = [
            [
                layer(c, share).simulate(np.zeros(c.codes, np.int64), rng)
                for c in counters_of(parted)
            ]
            for share in shares
        ]
    except ValueError as error:
        raise RequestError(f"--share: {reason(error)}") from None
    buffer, path = BytesIO(), FileSystems.join(memory.of(shuffle), LAYERS)
    np.save(buffer, np.array([np.concatenate(row) for row in rows]))
    with FileSystems.create(path) as stream:
        stream.write(buffer.getvalue())
    if "://" not in path:
        flush(path)
    until = _now() + timedelta(seconds=seconds_of(parted.job.plan.ask_again or "0s"))
    note = KeptBatch(shares=tuple(shares), until=until, passes={shares[0]: beside("", into)})
    put(FileSystems.join(memory.of(shuffle), KEPT), note)


def kept_of(memory: ShufflerMemory, shuffle: str) -> KeptBatch | None:
    """What a shuffle has noted of the passes over its batch; None if it has one."""
    note: KeptBatch | None = read_note(KeptBatch, FileSystems.join(memory.of(shuffle), KEPT))
    return note


def layers_of(folder: str) -> np.ndarray:
    """(shares, codes of all metrics) the layers that a shuffle's folder of the memory holds."""
    path = FileSystems.join(folder, LAYERS)
    try:
        with FileSystems.open(path) as stream:
            return np.asarray(read_array(BytesIO(stream.read()), allow_pickle=False))
    except (OSError, BeamIOError, ValueError) as error:
        raise RequestError(
            f"{MEMORY.flag}: {path} cannot be read, or is damaged{because(error)}: restore it from "
            f"a copy ({WHY})"
        ) from None


@dataclass
class SealedLayers(beam.PTransform):
    """Nothing in; `WithDummies`, the layers of a metric that the memory holds, sealed, out.

    Attributes:
        folder: of the shuffle in the memory.
        start: where the metric's codes begin in the layers.
        codes: how many it has.
        seal: what seals them.
    """

    folder: str
    start: int
    codes: int
    seal: SealCodes

    def expand(self, begin: beam.pvalue.PBegin) -> WithDummies:
        of_metric = beam.Create([(self.start, self.start + self.codes)])
        times = begin | "Of the metric" >> of_metric | "Read" >> beam.Map(_added_up, self.folder)
        codes = times | "Codes" >> beam.FlatMap(_repeated).with_output_types(np.ndarray)
        return WithDummies(codes | self.seal, times | "How many" >> beam.FlatMap(_number))


def _added_up(part: tuple[int, int], folder: str) -> np.ndarray:
    """How many dummies all layers together put on each counter of a metric."""
    return np.asarray(layers_of(folder)[:, slice(*part)].sum(axis=0))


def _repeated(times: np.ndarray) -> Iterator[np.ndarray]:
    yield from repeated(np.arange(times.size), times)


def _number(times: np.ndarray) -> Iterator[tuple[str, Any]]:
    yield DRAWN, 1
    yield added(int(times.sum()), 1)


def sweep(place: str) -> None:
    """Destroy the layers of all batches in a memory whose time is over."""
    for path in match(place, "*", "*", KEPT):
        note = read_note(KeptBatch, path)
        if note is not None and note.until <= _now():
            _destroy(FileSystems.split(path)[0])


def ask(
    parted: Split, memory: ShufflerMemory, shuffle: str, shares: Sequence[float], output: str
) -> int:
    """Hand over a later pass over a batch that was handed over; while the memory is held.

    Args:
        parted, memory, shuffle: of the window.
        shares: the one that is asked for: one of those that were said at first, or the last.
        output: the folder that is handed over.

    Raises:
        RequestError: nothing is kept for such a pass, it was handed over before, or the output is
            taken.
    """
    note, (share, *more) = kept_of(memory, shuffle), shares
    if note is None:
        raise RequestError(
            "--share: this window's batch was shuffled before, whole: nothing is left to be told"
        )
    if more or share not in (*note.shares, LAST):
        known = ", ".join(f"{one:g}" for one in note.shares)
        raise RequestError(
            f"--share: this window's batch was shuffled before, for passes at {known} and {REST}: "
            "name one of these"
        )
    shuffle_summary, place = summary_of(parted, shuffle, 0, note, share), beside("", output)
    if not (note.passes.get(share) == place and stands(output, shuffle)):
        _hand_over(_begun(memory, shuffle, note, share, output), shuffle_summary, output)
    if share == LAST:
        _destroy(memory.of(shuffle))
    answers.tell(**summary.answered(output, shuffle_summary))
    line = f"the pass at {share:g} of epsilon is in {output}; collect it with that of the batch"
    Screen().say(line)
    return DONE


def _begun(
    memory: ShufflerMemory, shuffle: str, note: KeptBatch, share: float, output: str
) -> np.ndarray:
    """What a later pass takes away; noted as told, before anybody can see it.

    Whoever is killed afterwards hands over the same bytes when run again.
    """
    folder, before, place = memory.of(shuffle), note.passes.get(share), beside("", output)
    if share == note.shares[0] or before not in (None, place):
        raise RequestError(f"--share: this pass was handed over before, into {before}")
    if share < max(note.passes):
        raise RequestError("--share: a pass was handed over that tells all of this one")
    if not FileSystems.exists(FileSystems.join(folder, LAYERS)):
        raise RequestError(
            f"--share: what was kept of this batch, until {note.until:%Y-%m-%d %H:%M} UTC, was "
            "destroyed: ask a window again while ask_again lasts"
        )
    if before is None:
        release.require_vacant(output)
    note = note.model_copy(update={"passes": {**note.passes, share: place}})
    put(FileSystems.join(folder, KEPT), note)
    return np.asarray(layers_of(folder)[np.array(note.shares) < share].sum(axis=0))


def summary_of(
    parted: Split, shuffle: str, words: int, note: KeptBatch | None, share: float | None = None
) -> summary.Summary:
    """What a batch of noisy counters, or a later pass over it of a share, says of itself."""
    job, passes = parted.job, note.shares if note else ()
    return summary.Summary(
        shuffle_id=shuffle,
        created=_now().isoformat(timespec="seconds"), collection=job.plan.collection,
        version=job.plan.version, fingerprint=parted.fingerprint.hex(), window=job.window,
        plan=mark(job.plan).hex(), design=job.design.hex(), sealed=True, words=words,
        tokens=parted.tokens,
        share=share or min(passes, default=None), passes=passes, sample=(),
    )  # fmt: skip


def _hand_over(taken: np.ndarray, shuffle_summary: summary.Summary, output: str) -> None:
    """Write a later pass where the collector takes it, its summary last."""
    with FileSystems.create(FileSystems.join(output, TAKEN)) as stream:
        pq.write_table(pa.table({"dummies": taken}), stream)
    summary.write(output, shuffle_summary)
    outlast(output)


def counters_of(parted: Split) -> tuple[Counters, ...]:
    """Of each metric; none if the devices draw the dummies of one."""
    own = tuple(one for one in parted.counters if isinstance(one, Counters))
    return own if len(own) == len(parted.counters) else ()


def _destroy(folder: str) -> None:
    """Remove the layers of a batch; here that outlives a power cut."""
    path = FileSystems.join(folder, LAYERS)
    if FileSystems.exists(path):
        FileSystems.delete([path])
    if "://" not in folder:
        flush(folder)


def _now() -> datetime:
    return datetime.now(timezone.utc)
