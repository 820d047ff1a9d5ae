"""The secrets of who makes reports: 32 bytes in a file, which no other party ever sees."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from mechanisms.randomness import SecureRandom
from mechanisms.wire.identity import SECRET
from pipelines.errors import Caution, RequestError, reason

REPORTS, USER = "--report-secret", "--user-secret"


def default_place() -> str:
    """Where the secret of a machine's reports is, if nobody names another file.

    Not beside the plan, which shuffler and collector are given.

    Raises:
        RequestError: this account has no folder of its own.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise RequestError(
            f"{REPORTS}: this account has no home folder: name a file, which is made if need be, "
            "and keep it"
        ) from None
    return str(Path(state) / "hushbeam" / "report-secret")


def made_once(file: str | None) -> str:
    """The file of the secret under which reports are named; made on first use.

    Args:
        file: as it was typed; None for this machine's.

    Returns:
        Its path.

    Raises:
        RequestError: it is not there, and cannot be made.
    """
    path = default_place() if file is None else file
    if "://" in path or os.path.exists(path):
        return path
    try:
        if file is None:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
    except OSError as error:
        raise RequestError(f"{REPORTS}: cannot write {path}: {reason(error)}") from None
    warnings.warn(
        f"made {path}, under which users' reports are named: keep it, for with another one a user "
        "who is reported again counts twice; and to yourself, for it tells whose a report is",
        Caution,
        stacklevel=2,
    )
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
        flag: by which the file was named: REPORTS or USER.
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
