"""What a path means, wherever the command was typed, and what makes a name outlive a power cut.

A plan's paths are beside the plan's own file: one that meant another place in another folder would
begin a second ledger with a full budget, or tell that a release which stands was never made.
"""

from __future__ import annotations

import os
import posixpath


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
    >>> beside("gs://bucket/plans", "../ledger.json"), beside("/plans", "gs://b//out/")
    ('gs://bucket/ledger.json', 'gs://b/out')
    """
    store = path if "://" in path else folder if "://" in folder else ""
    if not store or (store == folder and os.path.isabs(path)):
        return os.path.abspath(os.path.join(folder, path))
    scheme, _, rest = (path if "://" in path else f"{folder}/{path}").partition("://")
    bucket, _, name = rest.partition("/")
    inside = posixpath.normpath(posixpath.join("/", name))
    if posixpath.normpath(name or ".").startswith(".."):
        raise ValueError(f"{path} leaves the bucket of {folder}")
    return f"{scheme}://{bucket}{inside.rstrip('/')}"


def flush(path: str) -> None:
    """Make a file's content, or the names in a folder, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: str) -> list[str]:
    """Make a folder and those around it.

    Returns:
        The folders whose names have changed by it, to be flushed once more has been put there: the
        folder itself, and upwards to the one that was there before.
    """
    changed = [folder]
    while not os.path.lexists(changed[-1]):
        changed.append(os.path.dirname(changed[-1]))
    os.makedirs(folder, exist_ok=True)
    return changed
