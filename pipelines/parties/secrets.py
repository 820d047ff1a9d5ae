"""The secrets of who makes reports, or shuffles them: 32 bytes in a file, for no other party."""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from mechanisms.randomness import SecureRandom
from mechanisms.wire.identity import SECRET
from pipelines.errors import Caution, RequestError, reason

USER = "--user-secret"


@dataclass(frozen=True)
class Kept:
    """A secret that an account makes once and keeps.

    Attributes:
        flag: by which its file is named.
        why: it is to be kept, and from whom.
    """

    flag: str
    why: str


REPORTS = Kept(
    "--report-secret",
    "under which users' reports are named: keep it, for with another one a user who is reported "
    "again counts twice; and to yourself, for it tells whose a report is",
)
SHUFFLE = Kept(
    "--shuffle-secret",
    "under which shuffles are sampled: keep it, for with another one nobody sees that two of them "
    "share reports; and from clients, who could make any two seem to",
)


def default_place(secret: Kept) -> str:
    """Where an account's secret is, if nobody names another file.

    Not beside the plan, which all parties are given.

    Raises:
        RequestError: this account has no folder of its own.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise RequestError(
            f"{secret.flag}: this account has no home folder: name a file, which is made if need "
            "be, and keep it"
        ) from None
    return str(Path(state) / "hushbeam" / secret.flag.removeprefix("--"))


def made_once(secret: Kept, file: str | None) -> str:
    """The file of a secret; made on first use.

    Args:
        secret: which.
        file: as it was typed; None for this machine's.

    Returns:
        Its path.

    Raises:
        RequestError: it is not there, and cannot be made.
    """
    path = default_place(secret) if file is None else file
    if "://" in path or os.path.exists(path):
        return path
    try:
        if file is None:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
    except OSError as error:
        raise RequestError(f"{secret.flag}: cannot write {path}: {reason(error)}") from None
    warnings.warn(f"made {path}, {secret.why}", Caution, stacklevel=2)
    return path


def _make(path: str) -> None:
    """Write a new secret, unless another process was faster; nobody ever reads half of one."""
    number, partial = tempfile.mkstemp(dir=os.path.dirname(path) or os.curdir)  # mode 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(SecureRandom().words(SECRET // 8).tobytes())
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(partial)


def read(flag: str, file: str) -> bytes:
    """A secret; read where it is used, for it never travels with a job.

    Args:
        flag: by which the file was named.
        file: its path.

    Raises:
        RequestError: it cannot be read, or holds another thing.
    """
    try:
        with FileSystems.open(file) as stream:
            secret = bytes(stream.read(SECRET + 1))
    except (OSError, BeamIOError, ValueError):
        raise RequestError(f"{flag}: {file} cannot be read") from None
    if len(secret) != SECRET:
        whose = "of this user alone" if flag == USER else "that this machine keeps"
        raise RequestError(
            f"{flag}: {file} must hold {SECRET} random bytes {whose}, as from "
            f"`head -c {SECRET} /dev/urandom`"
        )
    return secret
