"""Secrets that an account keeps: of who makes reports, shuffles them, or pays for releases."""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mechanisms.randomness import SecureRandom
from mechanisms.wire.identity import SECRET
from pipelines.errors import Caution, RequestError, because, reason
from pipelines.storage.paths import flush, make_folders, new_file

USER = "--user-secret"


@dataclass(frozen=True)
class KeptSecret:
    """A secret that an account makes once and keeps.

    Attributes:
        flag: by which its file is named.
        why: it is to be kept, and from whom.
    """

    flag: str
    why: str


REPORTS = KeptSecret(
    "--report-secret",
    "under which users' reports are named: keep it, for with another one a user who is reported "
    "again counts twice; and to yourself, for it tells whose a report is",
)
SHUFFLE = KeptSecret(
    "--shuffle-secret",
    "under which shuffles are sampled: keep it, for with another one nobody sees that two of them "
    "share reports; and from clients, who could make any two seem to",
)
DEVICE = KeptSecret(
    "--device-secret",
    "by which an issuer of tokens knows this device: keep it, and to yourself; enrol its SHA-256",
)


def default_place(secret: KeptSecret) -> str:
    """Where an account's secret is, if nobody names another file.

    Not beside the plan, which all parties are given.

    Raises:
        RequestError: this account has no folder of its own.
    """
    return str(Path(state_folder(secret.flag)) / secret.flag.removeprefix("--"))


def state_folder(flag: str) -> str:
    """What this account keeps, if nobody names another place.

    Args:
        flag: by which another place is named.

    Raises:
        RequestError: this account has no folder of its own.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise RequestError(
            f"{flag}: this account has no home folder: name a file, which is made if need "
            "be, and keep it"
        ) from None
    return str(Path(state) / "hushbeam")


def made_once(secret: KeptSecret, file: str | None) -> str:
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
        folder = os.path.dirname(os.path.abspath(path))
        changed = [folder] if file is not None else make_folders(folder, 0o700)
        # Unless another process was faster; nobody ever reads half of one.
        already = contextlib.suppress(FileExistsError)
        with already, new_file(path, secret=True, over=False) as stream:
            stream.write(SecureRandom().words(SECRET // 8).tobytes())
        # What is made under it outlives a power cut, so it must.
        for outside in changed:
            flush(outside)
    except OSError as error:
        raise RequestError(f"{secret.flag}: cannot write {path}: {reason(error)}") from None
    warnings.warn(f"made {path}, {secret.why}", Caution, stacklevel=2)
    return path


def read(flag: str, file: str) -> bytes:
    """A secret; read where it is used, for it never travels with a job.

    Args:
        flag: by which the file was named.
        file: its path.

    Raises:
        RequestError: it cannot be read, or holds another thing.
    """
    try:
        with _opened(file) as stream:
            secret = bytes(stream.read(SECRET + 1))
    except (OSError, ValueError) as error:
        raise RequestError(f"{flag}: {file} cannot be read{because(error)}") from None
    if len(secret) != SECRET:
        whose = "of this user alone" if flag == USER else "that this machine keeps"
        raise RequestError(
            f"{flag}: {file} must hold {SECRET} random bytes {whose}, as from "
            f"`head -c {SECRET} /dev/urandom`"
        )
    return secret


def _opened(file: str) -> BinaryIO:
    if "://" not in file:
        return open(file, "rb")
    # It takes a second to import: who shows a ledger in a file need not wait.
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.open(file)
