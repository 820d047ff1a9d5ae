"""Running totals that are kept in a folder: each window is drawn once, through kills and restarts.

The folder is secret: with it and the totals, more is known than was paid for. It holds noise, the
totals that were published, and, under a key of its own, a digest of the last window's numbers, by
which one that was drawn and not shown is told from one that is asked for again with others.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import pyarrow as pa

from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import RandomSource
from mechanisms.running.factors import Factors
from mechanisms.running.totals import Contribution, RunningTotals, State
from pipelines.errors import RequestError, reason
from pipelines.paths import flush

_VERSION, _FILE, _LOCK = 1, "secret.json", "lock"
_KEY = 4  # words
_LARGEST = 1 << 48  # that is added in a window: totals of 20,000 then fit into 64 bits


@dataclass(frozen=True)
class Kept:
    """What stands in the folder.

    Attributes:
        asked: what the totals were begun with; the same whenever they are opened.
        design: what is drawn.
        names: of the totals.
        key: of digests.
        windows: that were drawn, in their order.
        totals: (windows, names) as they were published.
        last: the digest of the last window's numbers.
        state: of the noise.
    """

    asked: Mapping[str, Any]
    design: RunningTotals
    names: tuple[str, ...]
    key: str
    windows: tuple[str, ...]
    totals: tuple[tuple[int, ...], ...]
    last: str
    state: State

    def digest(self, window: str, numbers: Sequence[int]) -> str:
        """What tells numbers of a window from others, to who has the key."""
        said = json.dumps([window, [*numbers]]).encode()
        return hmac.new(bytes.fromhex(self.key), said, hashlib.sha256).hexdigest()

    def written(self) -> bytes:
        """As a file."""
        said = {name: getattr(self, name) for name in ("names", "key", "windows", "totals", "last")}
        design = {"factors": asdict(self.design.factors), "sigma": self.design.sigma}
        said |= {"asked": self.asked, "design": design, "state": self.state.written().decode()}
        return json.dumps({"version": _VERSION, **said}).encode()

    @classmethod
    def read(cls, data: bytes) -> Kept:
        """What was written.

        Raises:
            ValueError: it was not, or by another version.
        """
        try:
            said = json.loads(data)
            if said["version"] != _VERSION:
                raise ValueError("another version has written it")
            factors, asked = said["design"]["factors"], said["asked"]
            factors = Factors(
                factors["horizon"], *map(tuple, (factors["decays"], factors["weights"]))
            )
            names = tuple(said["names"])
            unit = Contribution(**asked["contribution"])
            design = RunningTotals(factors, said["design"]["sigma"], unit, len(names))
            totals = tuple(tuple(map(int, row)) for row in said["totals"])
            state = State.read(said["state"].encode())
        except (KeyError, TypeError) as error:
            raise ValueError("these are no running totals") from error
        return cls(
            asked, design, names, said["key"], tuple(said["windows"]), totals, said["last"], state
        )


def begun(
    folder: str, asked: Mapping[str, Any], design: RunningTotals, names: Sequence[str],
    rng: RandomSource,
) -> Kept:  # fmt: skip
    """Running totals that stand in a folder; begun there if nothing does.

    Args:
        folder: local.
        asked: what they were begun with, or are.
        design: of new ones.
        names: of the totals.
        rng: of this process.

    Raises:
        RequestError: others stand there, or the folder cannot be used.
    """
    with _locked(folder):
        kept = _read(folder)
        if kept is None:
            key = rng.words(_KEY).tobytes().hex()
            kept = Kept(asked, design, tuple(names), key, (), (), "", design.begin())
            _write(folder, kept)
    if (kept.asked, kept.names) != (json.loads(json.dumps(asked)), tuple(names)):
        raise RequestError(
            f"{folder} holds running totals that were begun with other terms; they cannot change: "
            "name a new folder, and pay for it"
        )
    return kept


def add(folder: str, window: str, numbers: Mapping[str, Any], rng: RandomSource) -> Kept:
    """Add a window's numbers to the totals, and publish them with noise.

    What is drawn stands on the disk before anybody sees it. The same window with the same numbers
    may be asked for again, until another is: nothing more is drawn.

    Args:
        folder: local, with running totals.
        window: its name.
        numbers: name -> what it adds, exactly.
        rng: of this process.

    Returns:
        What stands there now.

    Raises:
        RequestError: the window is not a new one, the horizon is over, or a number is missing.
    """
    with _locked(folder):
        kept = _read(folder)
        if kept is None:
            raise RequestError(f"{folder} holds no running totals")
        ordered = _ordered(kept.names, numbers)
        digest = kept.digest(window, ordered)
        if window in kept.windows:
            if window == kept.windows[-1] and hmac.compare_digest(digest, kept.last):
                return kept
            raise RequestError(
                f"window {window} was drawn before, and its totals stand: drawn again, or for "
                "other numbers, it would tell more than was paid for"
            )
        try:
            noise, state = kept.design.draw(kept.state, rng)
        except ValueError as error:
            raise RequestError(f"window {window}: {error}") from None
        before = kept.totals[-1] if kept.totals else (0,) * len(kept.names)
        now = zip(before, ordered, noise.tolist(), strict=True)
        totals = (*kept.totals, tuple(total + number + drawn for total, number, drawn in now))
        kept = replace(
            kept, windows=(*kept.windows, window), totals=totals, last=digest, state=state
        )
        _write(folder, kept)
        return kept


def table(kept: Kept, last: int | None, confidence: float) -> pa.Table:
    """Totals after each window, with their errors.

    Args:
        kept: what stands in the folder.
        last: of so many windows each, where there are as many; of all so far where it is None.
        confidence: of intervals, each of which holds alone.
    """
    rows = []
    for day, (window, totals) in enumerate(zip(kept.windows, kept.totals, strict=True)):
        if last is not None and day + 1 < last:
            continue
        before = kept.totals[day - last] if last is not None and day >= last else None
        error = kept.design.standard_error(day, last)
        half = normal_quantile(confidence) * error
        for place, (name, total) in enumerate(zip(kept.names, totals, strict=True)):
            found = total - (before[place] if before else 0)
            rows.append({
                "window": window, "value": name, "estimate": found, "standard_error": error,
                "lower": found - half, "upper": found + half,
            })  # fmt: skip
    kinds = [("window", pa.string()), ("value", pa.string()), ("estimate", pa.int64())]
    kinds += [(name, pa.float64()) for name in ("standard_error", "lower", "upper")]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def _ordered(names: Sequence[str], numbers: Mapping[str, Any]) -> list[int]:
    """Whole numbers in the order of the totals; what is wrong is said by name, never by number."""
    if {*names} != {*numbers}:
        raise RequestError(f"there are {len(names):,} totals, and a number must come for each")
    for name in names:
        number = numbers[name]
        whole = isinstance(number, Integral) and not isinstance(number, bool)
        if not (whole and -_LARGEST <= number <= _LARGEST):
            raise RequestError(f"what is added to {name!r} must be a whole number within 2^48 of 0")
    return [int(numbers[name]) for name in names]


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """One process at a time."""
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        with open(Path(folder, _LOCK), "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise RequestError(f"{folder} cannot be used: {reason(error)}") from None


def _read(folder: str) -> Kept | None:
    """What stands there; None if nothing does."""
    path = Path(folder, _FILE)
    try:
        return Kept.read(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        raise RequestError(f"{path} cannot be read: {error}") from None


def _write(folder: str, kept: Kept) -> None:
    """Write all of it or nothing, so that it outlives a power cut; nobody else may read it."""
    number, partial = tempfile.mkstemp(prefix=".secret.", dir=folder)  # mode 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(kept.written())
            file.flush()
            os.fsync(number)
        os.replace(partial, Path(folder, _FILE))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
    flush(folder)
