"""A process of a service: the windows of its folder, and groups of posts that share a commit."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from mechanisms.wire.oblivious import STRINGS, Evaluator
from mechanisms.wire.tokens import Issuer
from pipelines.errors import RequestError
from pipelines.serve.terms import Role
from pipelines.serve.window import CLOSED, Post, Status, WindowStore

FOLDER = "windows"  # of a landing folder
VARIABLE = "HUSHBEAM_LANDING"  # by which the processes of a service know their folder

UNREADABLE = (sqlite3.Error, OSError, ValueError, RequestError)
"""What a window raises whose file or seeds are damaged, of another version, or gone."""

_DEVICE = re.compile("[0-9a-f]{64}")  # SHA-256, of a credential
_DIGEST = 16  # bytes: nobody makes two reports of one digest, and loses another's by it
_SWEEP = 60.0  # seconds after which a process looks whether its windows are closed
# A commit takes 0.35 ms of CPU whatever is in it, more than all else of a post. So it waits for
# others while they come: for `_LULL` seconds in which nobody does, for `_GROUP` posts, or for
# `_LULLS` times as long. A lone device waits for the first of these, and few at once no longer.
_LULL, _LULLS, _GROUP = 0.004, 10, 32
_ROOM = 1 << 26  # bytes that a disk must have left for a process to be healthy


def digest(content: bytes) -> bytes:
    """By what posts and their parts are known."""
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def place(landing: Path, role: Role, name: str) -> Path:
    """A window's file.

    Args:
        landing: the service's folder.
        role: what is taken.
        name: of the window; its fingerprint where reports are taken, for they say no other name.
    """
    named = name if role == "reports" else digest(name.encode()).hex()
    return landing / FOLDER / f"{role}-{named}.sqlite"


def enrolled(file: Path) -> frozenset[str]:
    """The devices of a list, which has a line of each.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is of no device, with its number.
    """
    lines = [line.strip() for line in file.read_text("ascii").splitlines()]
    for number, line in enumerate(lines, 1):
        if line and not _DEVICE.fullmatch(line):
            raise ValueError(f"line {number} is nothing that `parties tokens device` prints")
    return frozenset(filter(None, lines))


class Open:
    """A window that a process serves, with its keys.

    Args:
        window: its file.
    """

    def __init__(self, window: WindowStore) -> None:
        self.window, self.terms = window, window.terms
        self.closed = False
        self.refused: Counter[int] = Counter()
        self._listed: tuple[tuple[int, ...], frozenset[str]] = (), frozenset()
        self.ended()

    @cached_property
    def issuer(self) -> Issuer:
        """Which made the tokens that pay, or makes them."""
        return Issuer(Path(self.terms.issuer).read_bytes())

    @cached_property
    def strings(self) -> Evaluator:
        """Of the OPRF party."""
        return Evaluator(Path(self.terms.strings).read_bytes(), STRINGS)

    def devices(self) -> frozenset[str]:
        """Digests (SHA-256, hexadecimal) of the credentials that may fetch tokens, as of now."""
        file = Path(self.terms.devices)
        with contextlib.suppress(OSError, ValueError):  # while it is replaced the last list counts
            stat = file.stat()
            state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if state != self._listed[0]:
                self._listed = state, enrolled(file)
        return self._listed[1]

    def ended(self) -> bool:
        """Whether it was closed meanwhile, or its seed forgotten: then it has no key any more."""
        if not self.closed:
            seeds = filter(None, (self.terms.issuer, self.terms.strings))
            self.closed = self.window.status().closed or not all(map(os.path.exists, seeds))
        if self.closed:
            self.window.release()
            for key in ("issuer", "strings"):
                self.__dict__.pop(key, None)
        return self.closed


class Service:
    """The windows of a folder, as one process sees them.

    Args:
        landing: the folder.

    Attributes:
        failures: commits that failed since the process began.
    """

    def __init__(self, landing: Path) -> None:
        self.landing, self.failures, self.failing = landing, 0, False
        self._windows: dict[tuple[Role, str], Open] = {}
        self._waiting: list[tuple[Open, Post, asyncio.Future[int]]] = []
        self._writer = ThreadPoolExecutor(1)  # connections to SQLite are used by it alone
        self._running: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None

    def window(self, role: Role, name: str) -> Open | None:
        """A window of the folder, whoever has opened it; None if nobody has."""
        window = self._windows.get((role, name))
        if window is None:  # not yet: one that is opened now is served at once
            path = place(self.landing, role, name)
            if not path.exists():
                return None
            window = Open(WindowStore(path))
            if not (window.closed or window.window.claimed()):
                return None
            self._windows[role, name] = window
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        return window

    async def _sweep(self) -> None:
        """Let go of the keys of windows that other processes have closed or forgotten."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            for window in [*self._windows.values()]:
                with contextlib.suppress(sqlite3.Error, OSError):  # looked at again the next time
                    await loop.run_in_executor(self._writer, window.ended)

    async def keep(self, window: Open, post: Post) -> int:
        """Keep a post, together with all that come meanwhile; its answer once it is on the disk.

        Raises:
            Exception: it was not kept.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((window, post, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        """Commit groups until nobody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._gather()
            group, self._waiting = self._waiting, []
            for window in dict.fromkeys(window for window, _, _ in group):
                posts = [(post, future) for other, post, future in group if other is window]
                refused, window.refused = window.refused, Counter()
                try:
                    answers = await loop.run_in_executor(
                        self._writer, _commit, window, [post for post, _ in posts], refused
                    )
                except Exception as error:  # whatever it is, nobody must wait for ever
                    self.failures, self.failing = self.failures + 1, True
                    for _, future in posts:
                        if not future.done():
                            future.set_exception(error)
                    continue
                self.failing = False
                for (_, future), answer in zip(posts, answers, strict=True):
                    if not future.done():  # whoever has hung up has no answer, and may come again
                        future.set_result(answer)
        self._running = None

    async def _gather(self) -> None:
        """Wait for more posts, as long as they come and do not wait for this."""
        for _ in range(_LULLS):
            before = len(self._waiting)
            if before >= _GROUP:
                return
            await asyncio.sleep(_LULL)
            if len(self._waiting) == before:
                return

    async def statuses(self) -> list[Status | None]:
        """Of all windows of the folder, as they are now; None of a file that cannot be read."""
        paths = sorted((self.landing / FOLDER).glob("*.sqlite"))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, lambda: [status(path) for path in paths])

    @property
    def healthy(self) -> bool:
        """Whether the last commit went well, and there is room for more."""
        return not self.failing and shutil.disk_usage(self.landing).free >= _ROOM


def status(path: Path) -> Status | None:
    """Of one window; None if its file cannot be read."""
    try:
        window = WindowStore(path)
        try:
            return window.status()
        finally:
            window.release()
    except UNREADABLE:
        return None


def _commit(window: Open, posts: list[Post], refused: Counter[int]) -> list[int]:
    """On the writer's thread."""
    answers = window.window.commit(posts, refused)
    if CLOSED in answers:
        window.closed = True
        window.ended()
    return answers
