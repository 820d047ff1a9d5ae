"""Files by their names, here or in a store: Beam's file systems, imported where a name needs one.

Beam takes more than a second to import. A request that is refused, and a plan that is checked, are
looked at before any job is made, and most of them name local files alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple

UNCOMPRESSED = "uncompressed"
_AUTO = "auto"  # Beam undoes the compression that a name claims

_GLOB = set("*?[")
_SETS = _GLOB - {"*"}  # what of globs Beam alone reads

# Names for which Beam knows a compression, and must be asked which.
_PACKED = (".bz2", ".deflate", ".gz", ".lzma", ".xz", ".zst", ".zstd")


class File(NamedTuple):
    """A file that was found, under Beam's names for what is known of it."""

    path: str
    size_in_bytes: int
    last_updated_in_seconds: float


class MatchedFiles(NamedTuple):
    """What a pattern matches."""

    metadata_list: list[File]


def nothing() -> None:
    """How file systems are prepared that nobody has options for."""


class _FileSystems:
    """Beam's `FileSystems`, but that local names without a pattern are looked at without Beam."""

    prepare: Callable[[], Any]

    def __init__(self) -> None:
        self.prepare = nothing

    def open(self, path: str, compression_type: str = _AUTO) -> BinaryIO:
        """A file, read from its beginning."""
        if _is_local(path) and (compression_type == UNCOMPRESSED or not _may_be_packed(path)):
            return open(path, "rb")
        return self._beams().open(path, compression_type=compression_type)

    def read(self, path: str) -> Any:
        """A file as it is, read from its beginning: by Arrow, if it is here.

        Arrow's readers turn to Python for each piece of another stream: of 5,000 small files of
        Parquet that took 25 of 100 us each.
        """
        if not _is_local(path):
            return self.open(path, UNCOMPRESSED)
        import pyarrow as pa

        try:
            return pa.OSFile(path)
        except OSError:  # of a folder Arrow has no number, by which its error is told
            return open(path, "rb")

    def match(self, patterns: list[str]) -> list[Any]:
        """For each pattern what it matches, as `MatchedFiles`."""
        if not all(_is_local(name) and not name.endswith("/") for name in patterns):
            return self._beams().match(patterns)
        if any(set(name) & _SETS or "**" in name for name in patterns):
            return self._beams().match(patterns)
        return [MatchedFiles([_file(name) for name in _matches(pattern)]) for pattern in patterns]

    def named(self, pattern: str) -> list[Any]:
        """The files that a name or a glob means, as `File`: the name itself before the glob.

        A file may be called data[2026].parquet, and be in a folder x[1].
        """
        if _is_local(pattern):
            folder = pattern
            while folder and not os.path.exists(folder):
                folder = os.path.dirname(folder)
            if folder == pattern:
                return [_file(pattern)] if pattern else []
            pattern = escaped(folder) + pattern[len(folder) :]
            # Beam looks for a glob below the folder that it names; of none it finds nothing.
            if set(pattern.partition("/")[0]) & _GLOB:
                pattern = os.path.join(os.curdir, pattern)
        elif "[" in pattern and self.exists(pattern):
            pattern = escaped(pattern)
        return self.match([pattern])[0].metadata_list

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return os.path.exists(path) if _is_local(path) else bool(self._beams().exists(path))

    def join(self, folder: str, *names: str) -> str:
        """A name within a folder."""
        if _is_local(folder):
            return os.path.join(folder, *names)
        return str(self._beams().join(folder, *names))

    def get_scheme(self, path: str) -> str | None:
        """What stands before ://; None of a local name."""
        return None if _is_local(path) else self._beams().get_scheme(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._beams(), name)

    def _beams(self) -> Any:
        from apache_beam.io.filesystems import FileSystems as Beams

        self.prepare()
        return Beams


FileSystems = _FileSystems()


def escaped(path: str) -> str:
    """A glob that means a path alone, as Beam reads globs: in brackets, for it knows no backslash.

    >>> escaped("/data/a*")
    '/data/a[*]'
    """
    # Of a set that began with a bracket, regular expressions warn.
    return re.sub(r"[\[*?]", lambda match: {"[": r"[\[]"}.get(match[0], f"[{match[0]}]"), path)


def compression_of(path: str) -> str:
    """The compression that Beam takes a file's name for."""
    if not _may_be_packed(path):
        return UNCOMPRESSED
    from apache_beam.io.filesystem import CompressionTypes

    return str(CompressionTypes.detect_compression_type(path))


def is_beams(error: OSError) -> bool:
    """Whether it is one of Beam's own errors, in whose words a system's reason is missing."""
    beams = sys.modules.get("apache_beam.io.filesystem")
    return beams is not None and isinstance(error, beams.BeamIOError)


def _is_local(path: str) -> bool:
    return "://" not in path


def _matches(pattern: str) -> list[str]:
    """What a local name means, or one with stars: files, hidden ones too, but behind no link.

    As Beam takes it, which lists all that is below the first star, however deep.
    """
    if "*" not in pattern:
        return [pattern] if os.path.exists(pattern) else []
    folder = os.path.join(os.path.dirname(pattern.partition("*")[0]), "")
    paths = [folder] if folder else []  # Beam finds nothing where no folder is named
    for part in pattern[len(folder) :].split("/"):
        own = [
            path for path in paths if not os.path.islink(path)
        ]  # `folder` may be: it ends with /
        like = re.compile(r"[^\\]*".join(map(re.escape, part.split("*"))), re.DOTALL)
        paths = [
            os.path.join(path, name)
            for path in own
            for name in (_names(path) if "*" in part else [part])
            if like.fullmatch(name)
        ]
    return [path for path in paths if os.path.isfile(path)]


def _names(folder: str) -> list[str]:
    """What is in a folder; nothing where it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _may_be_packed(path: str) -> bool:
    return path.lower().endswith(_PACKED)


def real_paths(files: Sequence[str]) -> list[str]:
    """Files by the names that they have once links are followed; those in a store as they are."""
    folders: dict[str, str] = {}
    return [_real(file, folders) if _is_local(file) else file for file in files]


def _real(file: str, folders: dict[str, str]) -> str:
    """A local file's own name, by those of folders, each of which is looked at once."""
    folder, name = os.path.split(file)
    if name in ("", os.curdir, os.pardir) or os.path.islink(file):
        return os.path.realpath(file)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _file(path: str) -> File:
    about = os.stat(path)
    return File(path, about.st_size, about.st_mtime)
