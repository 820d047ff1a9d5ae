"""What a command says to programs: with `--json` one object on stdout, of what people are shown.

A command tells facts where it shows them, as numbers and names of files; unless a program listens
they are dropped. What people are shown is silent meanwhile, so no command formats anything twice.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from pipelines.errors import Caution

FLAG = "--json"


@dataclass
class Answer:
    """What was told so far.

    Attributes:
        facts: name -> what JSON can hold, but for numbers of numpy's and such as are not finite.
        form: what takes the place of all facts: the answer of a command whose form programs knew
            before commands shared one.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    form: Any = None

    def written(self, code: int, error: str | None) -> str:
        """As a program reads it.

        Args:
            code: the exit code.
            error: why the command has ended early, if it has.
        """
        ended = self.facts | ({} if error is None else {"error": error}) | {"exit_code": code}
        content = ended if self.form is None or error is not None else self.form
        return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)

    @property
    def content(self) -> Any:
        """What a program is told of a command that has done what it was asked."""
        return _plain(self.facts if self.form is None else self.form)


_LISTENING: list[Answer] = []  # of this process; the last of them is told


@contextlib.contextmanager
def listening() -> Iterator[Answer]:
    """Take what is told meanwhile: of a command, or apart of one part of several."""
    _LISTENING.append(answer := Answer())
    try:
        yield answer
    finally:
        _LISTENING.pop()


@contextlib.contextmanager
def apart() -> Iterator[dict[str, Any]]:
    """Take the facts of one part of several, for its command to tell; none if nobody listens."""
    with listening() if wanted() else contextlib.nullcontext(Answer()) as answer:
        yield answer.facts


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Let nothing else reach stdout while a program listens, whoever writes there."""
    if not wanted():
        yield
        return
    with open(os.devnull, "w") as file, elsewhere(1, file), contextlib.redirect_stdout(file):
        yield


def wanted() -> bool:
    """Whether a program listens."""
    return bool(_LISTENING)


def tell(**facts: Any) -> None:
    """Tell facts, each by its name."""
    if _LISTENING:
        _LISTENING[-1].facts.update(facts)


def add(name: str, *more: Any) -> None:
    """Tell more of a list."""
    if _LISTENING:
        _LISTENING[-1].facts.setdefault(name, []).extend(more)


def give(form: Any) -> None:
    """Tell all that there is to say, in a form of its own."""
    if _LISTENING:
        _LISTENING[-1].form = form


def _plain(content: Any) -> Any:
    """What JSON can hold of it: a number that is not finite is null there.

    >>> _plain({"epsilon": math.inf, "rows": (1, 2.5)})
    {'epsilon': None, 'rows': [1, 2.5]}
    """
    if isinstance(content, Mapping):
        return {str(name): _plain(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(part) for part in content]
    if hasattr(content, "tolist"):  # numpy's
        return _plain(content.tolist())
    return None if isinstance(content, float) and not math.isfinite(content) else content


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let nobody but us speak on stderr: a traceback in Beam's log could quote the data.

    Beam logs with the root logger; worker processes inherit our stderr and log on their own.
    """
    root = logging.getLogger()
    level = root.level
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", Caution)
        root.setLevel(logging.CRITICAL)
        try:
            with elsewhere(2, nowhere):
                yield
        finally:
            root.setLevel(level)


@contextlib.contextmanager
def elsewhere(number: int, file: TextIO) -> Iterator[None]:
    """Let a file have what is written to 1, stdout, or 2, stderr, also by another process."""
    stream = (sys.stdout, sys.stderr)[number - 1]
    stream.flush()
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        stream.flush()
        os.dup2(before, number)
        os.close(before)
