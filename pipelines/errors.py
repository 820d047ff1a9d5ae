"""What can end a job early, and the exit code that says which."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable

# True however a run ends, also one that published and then failed to show what.
PUBLISHED_OR_NOT = "there is a release only if the output folder holds statement.json"

# Set once this process is told to end. An interrupt that is raised where exceptions are dropped,
# as in what Python calls while it collects garbage, is lost; whoever waits for long looks here.
STOPPED = threading.Event()
STOPPED_BY: list[str] = []  # the signals that told it, as SIGTERM

DONE, WITHHELD, WRONG_REQUEST, RUN_FAILED, ALARM = 0, 1, 2, 3, 4


class RequestError(Exception):
    """The request or its input is wrong: one line that says what, where, and what to do."""


class UnknownWordsError(RequestError):
    """Words of a command line mean nothing to it, or to Beam.

    Attributes:
        words: those.
        known: the options of Beam's, where the command takes them.
    """

    def __init__(self, text: str, words: Iterable[str], known: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.words, self.known = tuple(words), tuple(known)


class WithheldError(Exception):
    """Too few reports to publish anything: not a fault, but no release either."""


class FailedError(Exception):
    """The run failed, in words of our own: unlike a stranger's they cannot quote the data."""


class OutOfSightError(FailedError):
    """The waiting has ended, and not the job: on other machines it may go on, and publish."""


class Caution(UserWarning):
    """Something to think over, in words of our own: unlike an error it ends nothing."""


class Notice(Caution):
    """Something to know, and nothing to worry about."""


# What a worker raised comes back as text, and what Beam's file systems wrap as its repr.
_SYSTEM = re.compile(
    r"\b(?:\w*Error: \[Errno |(?:OS|Permission|FileNotFound|IsADirectory|NotADirectory)Error\()"
    r"(\d{1,3})(?:\]|, )"
)


def system_reason(error: BaseException) -> str | None:
    """What the system refused, if that is why a job failed; of the text a number is taken alone.

    >>> system_reason(RuntimeError("OSError: [Errno 28] No space left on device: '/out'"))
    'No space left on device'
    """
    said = _SYSTEM.findall(str(error))
    number = error.errno if isinstance(error, OSError) else int(said[-1]) if said else None
    return None if number is None else os.strerror(number)


def because(error: BaseException) -> str:
    """The same behind what could not be done; nothing where that is no reason.

    >>> because(PermissionError(13, "..."))
    ' (Permission denied)'
    """
    why = system_reason(error)
    return f" ({why})" if why else ""


def stranger(error: BaseException) -> FailedError:
    """What a failure in somebody else's words is in ours: their text may quote the data.

    >>> print(stranger(ValueError("one of 17 users is Ada")).args[0].partition(";")[0])
    the run failed with ValueError
    """
    return FailedError(
        f"the run failed with {type(error).__name__}{because(error)}; "
        f"{PUBLISHED_OR_NOT}. "
        "--debug shows the traceback, which may quote the data: keep it private"
    )


def reason(error: BaseException) -> str:
    """An error about options or file names, which hold no data, in one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())
