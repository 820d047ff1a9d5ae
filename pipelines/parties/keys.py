"""Keys of the collector: public halves for clients and shuffler, private ones for itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from mechanisms.wire.sealing import KeyRing, create_key, key_id, public_key
from pipelines.errors import DONE, RequestError, because, reason
from pipelines.request import answers
from pipelines.views.console import Screen

_LARGEST = 1 << 14  # bytes of a key file


def new(arguments: argparse.Namespace) -> int:
    """Make a pair of keys.

    Args:
        arguments: with the `place`, a local folder, made if it is not there.

    Returns:
        The exit code.

    Raises:
        RequestError: it cannot be written.
    """
    folder = arguments.place
    try:
        # Nobody else may list the folder, whatever the umask.
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        name = create_key(Path(folder)).hex()
    except OSError as error:
        raise RequestError(f"keys: cannot write in {folder}: {reason(error)}") from None
    screen, public, private = (
        Screen(),
        f"{folder}/{name}.public.pem",
        f"{folder}/{name}.private.pem",
    )
    answers.tell(key=name, public=public, private=private)
    for line in (
        f"key {name}",
        f"{public} goes to clients and to the shuffler (--seal; of a second shuffler --second)",
        f"{private} stays with who made it (--key), the collector or a second shuffler, and nobody "
        "else sees it",
    ):
        screen.say(line)
    return DONE


def read_public(file: str, flag: str = "--seal") -> bytes:
    """A public key's file, after a look at what is in it.

    Raises:
        RequestError: it cannot be read, or holds another thing.
    """
    pem = _content(flag, file)
    try:
        public_key(pem)
    except ValueError as error:
        raise RequestError(f"{flag}: {file}: {error}") from None
    return pem


def ids(files: Sequence[str], flag: str = "--seal") -> tuple[bytes, ...]:
    """The ids of public keys.

    Raises:
        RequestError: as `read_public`.
    """
    return tuple(key_id(public_key(read_public(file, flag))) for file in files)


def read_ring(files: tuple[str, ...]) -> KeyRing:
    """The private keys in some files; called where they are used, for keys never travel.

    Raises:
        RequestError: one cannot be read, or holds another thing.
    """
    pems = {file: _content("--key", file) for file in files}
    for file, pem in pems.items():
        try:
            KeyRing.of([pem])
        except ValueError as error:
            raise RequestError(f"--key: {file}: {error}") from None
    return KeyRing.of(pems.values())


def _content(flag: str, file: str) -> bytes:
    try:
        with FileSystems.open(file) as stream:
            return bytes(stream.read(_LARGEST))
    except (OSError, BeamIOError, ValueError) as error:
        raise RequestError(f"{flag}: {file} cannot be read{because(error)}") from None
