"""A file system in memory for Beam: like an object store, `memory://` cannot rename folders."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, ClassVar

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem


class MemoryFileSystem(FileSystem):
    """Objects are whole once their writer has closed them.

    Attributes:
        objects: path -> content.
        writes: the paths that were closed, in order.
        broken: writing a path that ends in this fails.
    """

    objects: ClassVar[dict[str, bytes]] = {}
    writes: ClassVar[list[str]] = []
    broken: ClassVar[str | None] = None

    @classmethod
    def reset(cls, broken: str | None = None) -> None:
        cls.objects.clear()
        cls.writes.clear()
        cls.broken = broken

    @classmethod
    def scheme(cls) -> str:
        return "memory"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        raise NotImplementedError

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for path, content in sorted(self.objects.items()):
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, len(content))

    def create(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
        return _Object(path)

    def open(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
        if path not in self.objects:
            raise BeamIOError(f"no object {path}")
        return io.BytesIO(self.objects[path])

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        return path in self.objects

    def size(self, path: str) -> int:
        return len(self.objects[path])

    def last_updated(self, path: str) -> float:
        return 0.0

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            if self.objects.pop(path, None) is None:
                raise BeamIOError(f"there is no {path}")


class _Object(io.BytesIO):
    """One object while it is written."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            broken = MemoryFileSystem.broken
            if broken is not None and self._path.endswith(broken):
                super().close()
                raise OSError("the store is down")
            MemoryFileSystem.objects[self._path] = self.getvalue()
            MemoryFileSystem.writes.append(self._path)
        super().close()
