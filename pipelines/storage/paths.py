"""What a path means, wherever the command was typed, and what makes a name outlive a power cut.

A plan's paths are beside the plan's own file: one that meant another place in another folder would
begin a second ledger with a full budget, or tell that a release which stands was never made.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from transforms.files.systems import escaped

DAY = "{day}"
"""In a path, what stands for a day: of files of which each holds one."""


def folder_of(path: str) -> str:
    """The folder that a file is in: absolute, or of an object store.

    >>> folder_of("gs://bucket/plans/trips.yaml")
    'gs://bucket/plans'
    """
    if "://" in path:
        return path.rpartition("/")[0]
    return os.path.dirname(os.path.abspath(path))


def beside(folder: str, path: str) -> str:
    """Where a path leads that was written in a file of some folder; normalised.

    Args:
        folder: of `folder_of`, or "" for the folder in which the command was typed.
        path: or glob; absolute, of an object store, or relative to the folder.

    Raises:
        ValueError: it leaves the bucket.

    >>> beside("/plans", "../logs/*.parquet"), beside("/plans", "/data/log.parquet")
    ('/logs/*.parquet', '/data/log.parquet')
    >>> beside("gs://bucket/plans", "../ledger.json"), beside("/plans", "gs://b//out")
    ('gs://bucket/ledger.json', 'gs://b//out')
    """
    if "://" in path:  # as it is: in an object store any text between slashes is part of a name
        return path
    if "://" not in folder or os.path.isabs(path):
        return os.path.abspath(os.path.join(folder, path))
    scheme, _, rest = folder.partition("://")
    bucket, _, name = rest.partition("/")
    inside = posixpath.normpath(posixpath.join(name, path))
    if inside.split("/")[0] == "..":
        raise ValueError(f"{path} leaves the bucket of {folder}")
    return f"{scheme}://{bucket}/{inside}"


def siblings(folder: str) -> str:
    """A glob for a folder and those beside it.

    >>> siblings("gs://bucket/out/monday")
    'gs://bucket/out/*'
    """
    return f"{escaped(folder.rstrip('/').rpartition('/')[0])}/*"


def require_match(what: str, written: str, place: str) -> None:
    """Refuse a path that means nothing where it leads, and something where it was typed.

    Paths were once relative to where a command was typed: a ledger that stands there is not to be
    forgotten for a new one.

    Args:
        what: the path is of.
        written: in the plan.
        place: where it leads.

    Raises:
        ValueError: it was meant so; with both places.
    """
    typed = os.path.abspath(written)
    if "://" in place or typed == place or not os.path.lexists(typed) or os.path.lexists(place):
        return
    raise ValueError(
        f"{what}: a plan's paths are relative to the plan's file, so {written} is {place}, which "
        f"is not there; {typed} is: move it there, or name it by its absolute path"
    )


def flush(path: str) -> None:
    """Make a file's content, or the names in a folder, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def share(path: str) -> None:
    """Give a file the mode that new files have: `mkstemp` keeps everybody else out."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, 0o666 & ~umask)


def make_folders(folder: str, mode: int = 0o777) -> list[str]:
    """Make a folder and those around it.

    Args:
        folder: absolute.
        mode: of the folder, if it is made now.

    Returns:
        The folders whose names have changed by it, to be flushed once more has been put there: the
        folder itself, and upwards to the one that was there before.
    """
    changed = [folder]
    while not os.path.lexists(changed[-1]):
        changed.append(os.path.dirname(changed[-1]))
    os.makedirs(folder, mode, exist_ok=True)
    return changed


@contextlib.contextmanager
def new_file(path: str, secret: bool = False, over: bool = True) -> Iterator[BinaryIO]:
    """A file of this machine that has its name once it is whole, and then outlives a power cut.

    Args:
        path: of the file; its folder is there.
        secret: whether others are kept out.
        over: whether it takes the place of another one.

    Raises:
        FileExistsError: there is another one, and it stays.
    """
    folder, name = os.path.split(os.path.abspath(path))
    descriptor, partial = tempfile.mkstemp(prefix=f".{name}.partial-", dir=folder)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        if not secret:
            share(partial)
        (os.replace if over else os.link)(partial, path)
        flush(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
