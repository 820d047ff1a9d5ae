"""What running totals are drawn from: a secret file, of one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mechanisms.central.window_alarm import WindowAlarm
from mechanisms.channel import Guarantee
from mechanisms.running.factors import Factors
from mechanisms.running.totals import Contribution, RunningTotals, TotalsState
from pipelines.errors import RequestError, reason
from pipelines.running.sources import NONE, Sources, require_apart, require_same_files
from pipelines.storage.formats import numbered
from pipelines.storage.paths import flush, make_folders, new_file
from pipelines.storage.secrets import state_folder
from pipelines.wording import condition_of

Design = RunningTotals | WindowAlarm
KIND = "running-totals"
_VERSION = 1
_WHY = "drawn anew, windows would tell more than was paid for"
_AS_THEY_ARE = ("names", "key", "windows", "totals", "last", "paid", "output")


@dataclass(frozen=True)
class KeptTotals:
    """What stands in the folder.

    Attributes:
        request: what the totals were begun with; the same whenever they are opened.
        design: what is drawn.
        names: of the totals.
        key: of digests.
        windows: that were drawn, in their order.
        totals: (windows, names) as they were published.
        last: the digest of the last window's numbers.
        state: of the noise.
        paid: the ledger and the population that pay for the whole horizon; None if none does.
        output: the folder that they were begun for, or what a plan's windows have in common.
        sources: what each window was made of, or is to be, by its name, if it was made of files.
    """

    request: Mapping[str, Any]
    design: Design
    names: tuple[str, ...]
    key: str
    windows: tuple[str, ...]
    totals: tuple[tuple[int, ...], ...]
    last: str
    state: TotalsState
    paid: tuple[str, str] | None
    output: str
    sources: Mapping[str, Sources] = field(default_factory=dict)

    @property
    def guarantee(self) -> Guarantee:
        """What holds of all windows together, and of whom."""
        request, apart = self.request, self.request.get("time_column") is not None
        terms = self.design.contribution.days, self.design.horizon, apart, request.get("first")
        condition = condition_of(request["unit"], *terms)
        return self.design.guarantee(request["epsilon"], request["unit"], condition)

    def made(self, window: str, sources: Sources) -> KeptTotals:
        """With what a window is made of, if it is not drawn yet.

        Raises:
            RequestError: it was drawn of other files; or rows of it are in the totals already, as
                far as that can be known.
        """
        if window in self.windows:
            require_same_files(window, sources, self.sources.get(window, NONE))
            return self
        require_apart(window, sources, self.sources, self.windows)
        return self if sources == NONE else replace(self, sources={**self.sources, window: sources})

    @property
    def id(self) -> str:
        """By which a release knows its secret; of the key, which is random, it tells nothing."""
        return self._under_key(b"id")

    def up_to(self, window: str) -> KeptTotals:
        """As it was when a window had been drawn, but for the noise of later ones."""
        drawn = self.windows.index(window) + 1
        return replace(self, windows=self.windows[:drawn], totals=self.totals[:drawn])

    def digest(self, window: str, numbers: Sequence[int]) -> str:
        """What tells numbers of a window from others, to who has the key."""
        return self._under_key(json.dumps([window, [*numbers]]).encode())

    def _under_key(self, said: bytes) -> str:
        return hmac.new(bytes.fromhex(self.key), said, hashlib.sha256).hexdigest()

    def write(self, place: Place) -> None:
        """Put it where it is kept, all of it or nothing."""
        said = {name: getattr(self, name) for name in _AS_THEY_ARE}
        drawn = self.design
        alarm = isinstance(drawn, WindowAlarm)
        design = {"alarm": asdict(drawn)} if alarm else asdict(drawn)
        said |= {"request": self.request, "design": design, "state": self.state.written().decode()}
        said["sources"] = {name: one.as_dict() for name, one in self.sources.items()}
        with new_file(place.secret, secret=True) as stream:
            stream.write(json.dumps({"version": _VERSION, **said}).encode())

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> KeptTotals:
        """What was written.

        Raises:
            ValueError: it was not.
        """
        try:
            request, names = said["request"], tuple(said["names"])
            design = _design(said["design"], len(names))
            totals = tuple(tuple(map(int, row)) for row in said["totals"])
            state = TotalsState.read(said["state"].encode())
            paid = None if said["paid"] is None else tuple(said["paid"])
            sources = {name: Sources.read(one) for name, one in said["sources"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("these are no running totals") from error
        return cls(
            request, design, names, said["key"], tuple(said["windows"]), totals, said["last"],
            state, paid, said["output"], sources,
        )  # fmt: skip


def _design(said: Mapping[str, Any], totals: int) -> Design:
    if "alarm" in said:
        return WindowAlarm(**said["alarm"])
    factors = said["factors"]
    lists = map(tuple, (factors["decays"], factors["weights"]))
    unit = Contribution(**said["contribution"])
    return RunningTotals(Factors(factors["horizon"], *lists), said["sigma"], unit, totals)


@dataclass(frozen=True)
class Place:
    """Where running totals are.

    Attributes:
        output: the folder of their release, local; empty where each window has one of its own.
        secret: the file of what is drawn, local; not inside that folder.
    """

    output: str
    secret: str

    @classmethod
    def of(cls, output: str, secret: str | None) -> Place:
        """Both; the secret by default where this account keeps what it keeps.

        Raises:
            RequestError: one of them is no local place, or the secret would be published.
        """
        if "://" in f"{output}{secret or ''}":
            raise RequestError("running totals are kept on a disk: name a local folder")
        folder = os.path.abspath(output)
        secret = _usual(folder) if secret is None else secret
        file = os.path.abspath(secret)
        if os.path.commonpath([file, folder]) == folder:
            raise RequestError("secret: it must not stand in the folder that is published")
        return cls(folder, file)

    @classmethod
    def of_series(cls, series: str) -> Place:
        """Of windows whose folders are a plan's: its secret alone, where this account keeps it."""
        return cls("", _usual(series))


def _usual(name: str) -> str:
    own = hashlib.sha256(name.encode()).hexdigest()[:16]
    return os.path.join(state_folder("secret"), KIND, f"{own}.json")


def locked(place: Place) -> contextlib.AbstractContextManager[None]:
    """One process at a time, of those that draw from the secret and of those that publish there."""
    # A file for each, in one order.
    locks = {f"{place.secret}.lock": 0o700}
    if place.output:
        locks[in_use(place.output)] = 0o777
    return lock(locks, " or ".join(filter(None, (place.output, place.secret))))


def in_use(output: str) -> str:
    """What is locked while a folder is published in, or added to."""
    # Not the folder itself: ledgers lock theirs meanwhile.
    folder, name = os.path.split(os.path.realpath(output))
    return os.path.join(folder, f".{name}.in-use")


@contextlib.contextmanager
def lock(locks: Mapping[str, int], what: str) -> Iterator[None]:
    """One process at a time.

    Args:
        locks: file -> the mode of its folder, if there is none yet; in one order, and never the
            same file for two things.
        what: they guard.
    """
    try:
        with contextlib.ExitStack() as stack:
            for path, mode in locks.items():
                for changed in make_folders(os.path.dirname(path), mode)[1:]:
                    flush(changed)
                _lock(path, stack)
            yield
    except OSError as error:
        raise RequestError(f"{what}: {reason(error)}") from None


def _lock(path: str, stack: contextlib.ExitStack) -> None:
    """Lock a file, and remove it at the end: nobody has to know what it was for."""
    ours = False
    while not ours:
        with contextlib.ExitStack() as own:
            file = own.enter_context(open(path, "a"))
            fcntl.flock(file, fcntl.LOCK_EX)
            # Who had it before has removed it, and others may hold a new one of that name.
            with contextlib.suppress(FileNotFoundError):
                ours = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
            if ours:
                own.callback(_remove, path)
                stack.push(own.pop_all())


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def read(place: Place) -> KeptTotals | None:
    """What is drawn from; None if nothing is."""
    path = Path(place.secret)
    if not path.exists():
        return None
    said = numbered(f"secret: {path}", path.read_bytes(), _VERSION, _WHY)
    try:
        return KeptTotals.read(said)
    except ValueError as error:
        raise RequestError(f"secret: {path} cannot be read: {error}") from None
